"""Whatever has happened to a table, the views that it keeps are those it would make afresh."""

from dataclasses import replace
from random import Random

import pytest

from lbd.config.schema import LimConfig
from lbd.lim.core.needs_views import seen_needing
from lbd.lim.core.table import Table
from lbd.model import Facts, HostId, HostState, JobId, Needs
from lbd.testing.builders import member, sample, vector

PARAMS = LimConfig(stale_after_s=12.0, down_after_s=30.0, avoid_s=5.0, exchange_period_s=2.0)
NAMES = [HostId(f"h{number}") for number in range(1, 6)]
GPU, MEMORY = Needs((("gpu", 1),)), Needs(peak_bytes=3 << 30)


class History:
    """A table of h1 to which anything happens."""

    def __init__(self, seed):
        self.rng, self.now_s, self.numbers = Random(seed), 100.0, dict.fromkeys(NAMES, 1)
        self.incarnations = dict.fromkeys(NAMES, 1)
        self.table = Table(member("h1"), PARAMS, 4.0, self.now_s)
        for rank, name in enumerate(NAMES[1:], 1):
            self.table.add(member(name, rank), listed=True, now_s=self.now_s)
        self.jobs = 0
        self.said("h1")

    def load(self):
        choice, gpus = self.rng.choice, self.rng.randrange(3)
        load = vector(
            choice((0.0, 0.5, 3.0)), choice((1.0, 4.0)), choice((1.0, 2.0)),
            (2, choice((0, 2))), choice((True, True, False)),
        )  # fmt: skip
        facts = Facts(("linux",), (("gpu", 2, gpus),), 8 << 30, gpus << 30)
        return replace(
            load, facts=facts, memory_total=8 << 30, memory_available=choice((2, 4)) << 30
        )

    def sample(self, name):
        self.numbers[name] += 1
        self.incarnations[name] += self.rng.random() < 0.05  # it was restarted
        return sample(
            name, self.numbers[name], self.load(), 0.0, self.incarnations[name],
            drained=self.rng.random() < 0.1,
        )  # fmt: skip

    def said(self, name):
        self.table.record(self.sample(name), self.now_s)

    def happens(self):
        table, rng = self.table, self.rng
        self.now_s += rng.choice((0.0, 0.5, 1.0, 5.0, 7.0, 12.0))
        name = rng.choice(NAMES)
        held = [entry.sample for entry in table.entries.values() if entry.sample is not None]
        match rng.randrange(9):
            case 0 | 1:
                self.said(name)
            case 2 | 3:
                known = rng.sample(held, rng.randint(1, len(held)))
                missed = [self.sample(name)] if rng.random() < 0.3 else []
                table.confirm([*known, *missed], 0.5, self.now_s)
            case 4:
                self.jobs += 1
                table.charge(name, JobId(f"h1-{self.jobs}"), self.now_s)
            case 5:
                table.discharge(JobId(f"h1-{rng.randint(1, self.jobs + 1)}"))
            case 6:
                table.avoid(name, "x", self.now_s)
            case 7:
                table.drained_there(name, rng.random() < 0.5)
            case 8:
                table.expire_charges(self.now_s, rng.random() < 0.5)

    def made_afresh(self, needs):
        table, found = self.table, {}
        for name, entry in table.entries.items():
            own = name == table.me
            one = table._make_view(entry, table.charges(name), self.now_s, own)
            found[name] = seen_needing(needs, one, *table._facts(name)) if needs else one
        return found


@pytest.mark.parametrize("seed", range(30))
def test_views_are_kept_as_long_as_they_are_true(seed):
    history = History(seed)
    table = history.table
    for _ in range(200):
        history.happens()
        if history.rng.random() < 0.3:
            continue  # nobody looks
        for needs in (Needs(), GPU, MEMORY):
            assert table.view(None, history.now_s, needs).hosts == history.made_afresh(needs)
        assert table.own_load() == table.own_view(history.now_s).load_now


@pytest.mark.parametrize("seed", range(10))
def test_who_is_alive_gone_or_silent_follows_from_the_states(seed):
    history = History(seed)
    table = history.table
    for step in range(100):
        history.happens()
        if step == 50:
            table.leave(NAMES[1])
            table.skewed(NAMES[2], "too old")
        now_s = history.now_s
        down = {name for name in NAMES if table.state(name, now_s)[0] is HostState.DOWN}
        assert set(table.others_alive(now_s)) == set(NAMES[1:]) - down
        settled = now_s > 100.0 + PARAMS.centre_silence_s
        gone = {name for name in NAMES if table.is_gone(name, now_s)}
        assert gone == down if settled else gone <= down
        for name in table.silent(now_s):
            assert name in gone
            assert name not in NAMES[1:3] or step < 50


@pytest.mark.parametrize("seed", range(20))
def test_confirming_a_load_is_as_good_as_hearing_it_again(seed):
    history, name = History(seed), NAMES[seed % 4 + 1]
    table = history.table
    for _ in range(seed):
        history.happens()
    history.said(name)
    table.view(None, history.now_s)
    kept, now_s = table.entries[name].sample, history.now_s + history.rng.choice((1.0, 20.0, 40.0))
    table.confirm([kept], 0.25, now_s)
    confirmed = replace(table.view(None, now_s).hosts[name])
    assert table.record(replace(kept, number=kept.number + 1, age_s=0.25), now_s)
    heard = table.view(None, now_s).hosts[name]
    assert confirmed.load_now == pytest.approx(heard.load_now)
    same = {"load_now": 0.0, "load": 0.0, "charged": 0.0}
    assert replace(confirmed, **same) == replace(heard, **same)
