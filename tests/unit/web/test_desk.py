import asyncio
import gc
import json
import math
import threading
import weakref

import pytest

from lbd.errors import Unavailable
from lbd.web.desk import GIVEN_BYTES, Desk, Kind, Question
from lbd.web.drawn import Drawn
from lbd.web.memory import KEPT_BYTES
from lbd.web.stream import Streams
from lbd.web.view import NOBODY, Item, Line, Page, Table, Viewer


class Pages:
    """Counts how often it is asked; waits while it is held."""

    def __init__(self):
        self.made = 0
        self.held = threading.Event()
        self.held.set()
        self.trouble = None

    def make(self, asked):
        self.held.wait(20)
        self.made += 1
        if self.trouble:
            raise self.trouble
        return Page(
            "p", [Line("a", "A", f"{asked.viewer.name}{self.made}"), Line("b", "B", "same")]
        )


@pytest.fixture
def pages():
    return Pages()


@pytest.fixture
def desk(pages):
    desk = Desk(lambda viewer, reading: None)
    yield desk
    pages.held.set()
    desk.close()


ANN, BOB = Viewer(1, "ann", "t", "k1"), Viewer(2, "bob", "t", "k2")


def question(pages, viewer=NOBODY, fresh_s=100.0, name=""):
    return Question(Kind("/p", pages.make, fresh_s), viewer, name, ())


async def test_fifty_viewers_cost_as_much_as_one(pages, desk):
    pages.held.clear()
    asking = [asyncio.create_task(desk.page(question(pages))) for _ in range(50)]
    await asyncio.sleep(0)
    pages.held.set()
    made = await asyncio.gather(*asking)
    assert pages.made == 1
    assert all(one is made[0] for one in made)
    await desk.page(question(pages))
    assert pages.made == 1


async def test_a_page_is_its_viewers_alone(pages, desk):
    ann = await desk.page(question(pages, ANN))
    bob = await desk.page(question(pages, BOB))
    assert "ann1" in ann.drawn.parts["a"]
    assert "bob2" in bob.drawn.parts["a"]


@pytest.mark.parametrize("attacker", [NOBODY, BOB])
async def test_who_asks_for_thousands_of_pages_keeps_no_user_from_theirs(pages, desk, attacker):
    """Each has another address, so each must be made."""
    pages.held.clear()
    slow = [asyncio.create_task(desk.page(question(pages, attacker, name=str(n))))
            for n in range(200)]  # fmt: skip
    await asyncio.sleep(0)
    async with asyncio.timeout(20):
        made = await desk.page(question(Pages(), ANN))
    assert "ann1" in made.drawn.parts["a"]
    pages.held.set()
    found = await asyncio.gather(*slow, return_exceptions=True)
    assert any(isinstance(one, Unavailable) for one in found)
    assert not desk._places.turns


async def test_who_holds_all_streams_keeps_no_user_from_theirs(pages, desk):
    pages.held.clear()
    streams = Streams(desk, asyncio.Event())
    held = []
    for viewer in (NOBODY, BOB):
        while not streams.is_full(viewer):
            held.append(streams.events(question(pages, viewer)))
            await anext(held[-1])
    assert not streams.is_full(ANN)
    for one in held:
        await one.aclose()
    assert streams.count == 0
    assert not streams.is_full(BOB)


class Answer(dict):
    """What a daemon said."""


@pytest.mark.parametrize("as_json", [False, True])
async def test_of_a_page_only_what_is_sent_is_kept(desk, as_json):
    """The objects of an answer take ten times the memory of its text."""
    answers = []

    def make(asked):
        answer = Answer(name=asked.name)
        answers.append(weakref.ref(answer))
        return Page("p", [Line("a", "A", asked.name)], answer)

    for number in range(100):
        await desk.page(Question(Kind("/p", make, 100.0), ANN, str(number), (), as_json))
    gc.collect()
    assert [found() for found in answers] == [None] * 100


async def test_pages_are_kept_in_so_many_bytes(desk):
    def make(asked):
        return Page("p", [Line("a", "A", asked.name + "x" * 1_000_000)])

    for number in range(100):
        await desk.page(Question(Kind("/p", make, 100.0), ANN, str(number), ()))
    assert desk._made.bytes <= KEPT_BYTES
    assert 10 < len(desk._made) < 25


async def test_what_viewers_have_is_kept_in_so_many_bytes(desk):
    """Thirty streams of a user, each of another long page, kept 40 MB."""

    def make(asked):
        return Page("p", [Line("a", "A", asked.name + "x" * 1_000_000)])

    streams = [
        Streams(desk, asyncio.Event(), tick_s=0.0).events(
            Question(Kind("/p", make, 0.0), ANN, str(number), ())
        )
        for number in range(30)
    ]
    for events in streams:
        for _ in range(2):
            await anext(events)
    for events in streams:
        assert b"event: parts" in await anext(events)  # what has been dropped is sent again
    assert desk._given.bytes <= GIVEN_BYTES
    gc.collect()
    drawns = [one for one in gc.get_objects() if isinstance(one, Drawn)]
    assert len(drawns) < 25
    for events in streams:
        await events.aclose()


async def test_the_json_of_a_page_is_made_of_what_it_is_made_from(desk):
    def make(asked):
        return Page("p", [], [{"name": asked.name, "load": math.nan}], "/p")

    made = await desk.page(Question(Kind("/p", make), ANN, "h1", (), as_json=True))
    assert json.loads(made.json) == [{"schema": 1, "name": "h1", "load": None}]


async def test_an_old_answer_is_requested_again(pages, desk):
    await desk.page(question(pages, fresh_s=0.0))
    await desk.page(question(pages, fresh_s=0.0))
    assert pages.made == 2


async def test_an_error_is_shared_by_all_for_a_while(pages, desk):
    pages.trouble = Unavailable("lim is not running")
    for _ in range(3):
        with pytest.raises(Unavailable, match="not running"):
            await desk.page(question(pages))
    assert pages.made == 1


async def test_a_stream_contains_only_changes(pages, desk):
    ending = asyncio.Event()
    streams = Streams(desk, ending, tick_s=0.0)
    events = streams.events(question(pages, fresh_s=0.0))
    assert await anext(events) == b"retry: 3000\n\n"
    first, second = await anext(events), await anext(events)
    assert b'"a":' in first
    assert b'"b":' in first
    assert b'"a":' in second
    assert b'"b":' not in second
    assert streams.count == 1
    ending.set()
    assert [one async for one in events] == []
    assert streams.count == 0


class Hosts:
    """A table whose second row has a new number each time, and soon a third row."""

    def __init__(self, rows=2):
        self.made, self.rows = 0, rows

    def make(self, asked):
        self.made += 1
        rows = [[Item(f"h{n}"), Item("up"), Item(str(self.made if n else 0))]
                for n in range(self.rows)]  # fmt: skip
        return Page("p", [Table("hosts", "Hosts", ("Host", "State", "Load"), rows)])


def news(said):
    """Returns what a stream sends about the table."""
    return json.loads(said.partition(b"data: ")[2])["hosts"]


async def test_of_a_table_only_changed_cells_are_sent(desk):
    hosts = Hosts()
    events = Streams(desk, asyncio.Event(), tick_s=0.0).events(question(hosts, fresh_s=0.0))
    said = [await anext(events) for _ in range(3)]
    assert "<table" in news(said[1])
    assert news(said[2]) == [[1, 2, '<td role="cell" data-label="Load">2</td>']]
    hosts.rows = 3
    assert "<table" in news(await anext(events))
    await events.aclose()


async def test_a_viewer_who_has_just_loaded_a_page_is_sent_what_changed_since(desk):
    hosts = Hosts()
    asked = question(hosts, fresh_s=0.0)
    loaded = (await desk.page(asked)).drawn
    desk.give(asked, loaded)
    streams = Streams(desk, asyncio.Event(), tick_s=0.0)
    for mark, is_whole in ((loaded.mark, False), ("0123", True), ("", True)):
        events = streams.events(asked, mark)
        await anext(events)
        assert isinstance(news(await anext(events)), str) == is_whole
        await events.aclose()
    assert desk.given(question(hosts, ANN), loaded.mark) is None


async def test_a_change_is_rendered_once_for_all_viewers_with_the_same_state(desk):
    hosts = Hosts()
    before = (await desk.page(question(hosts, fresh_s=0.0))).drawn
    after = (await desk.page(question(hosts, fresh_s=0.0))).drawn
    assert after.since(before) is after.since(before)
    assert after.since(after) == after.since(after) == b": nothing new\n\n"


async def test_a_page_that_is_the_same_for_all_is_made_once(pages, desk):
    kind = Kind("/p", pages.make, 100.0, is_for_all=True)
    made = [await desk.page(Question(kind, viewer, "", ())) for viewer in (ANN, BOB, NOBODY)]
    assert pages.made == 1
    assert all(one is made[0] for one in made)
    assert made[0].drawn.parts["a"].count("ann") == 0  # it is requested as nobody


async def test_a_reader_who_does_not_read_makes_nothing(pages, desk):
    events = Streams(desk, asyncio.Event(), tick_s=0.0).events(question(pages, fresh_s=0.0))
    await anext(events)
    await anext(events)
    for _ in range(100):
        await asyncio.sleep(0)
    assert pages.made == 1
    await events.aclose()


async def test_a_stream_survives_an_error(pages, desk):
    pages.trouble = Unavailable("lim is not running")
    events = Streams(desk, asyncio.Event(), tick_s=0.0).events(question(pages, fresh_s=0.0))
    await anext(events)
    assert b"event: trouble" in await anext(events)
    pages.trouble = None
    desk.forget()
    assert b"event: parts" in await anext(events)
    await events.aclose()
