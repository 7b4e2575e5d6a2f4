"""The daemon's shell and the operations of lim.sock, on the memory network."""

import asyncio
from dataclasses import replace

import pytest

from lbd.config.schema import LoadConfig
from lbd.errors import ConfigError, LbdError
from lbd.lim.core import messages as m
from lbd.lim.core.events import Log, Replied, Undelivered
from lbd.lim.daemon import Lim
from lbd.lim.log_lines import LINES_AT_ONCE, LINES_PER_S, Lines
from lbd.local.connection_limits import Crowd
from lbd.local.json_socket import Connection, Refusal
from tests.unit.lim.daemons import LBM, LIM, NOBODY, PLACE, ROOT, Daemon, config, running, up
from tests.unit.until import until


async def test_a_single_host_runs_everything_itself(tmp_path):
    async with running(config(tmp_path), alone=True) as (one,):
        reply = await one.ask(PLACE)
        assert (reply["verdict"], reply["host"]) == ("here", "h1")
        status = await one.ask({"op": "status"})
        assert status["cluster"]["centre"] == "h1"
        assert [host["name"] for host in status["hosts"]] == ["h1"]


async def test_status_is_the_object_of_the_contract(two):
    one, other = two
    await other.ask(LBM)
    await until(lambda: one.lim.state.table.entries["h2"].sample.vector.slots_total == 2)
    status = await one.ask({"op": "status"})
    assert status["schema"] == 1
    assert status["cluster"] == {
        "name": "lbd", "algorithm": "GLOBAL", "centre": "h1", "dispatcher": None,
        "load_index": "smoothed",
    }  # fmt: skip
    host = next(host for host in status["hosts"] if host["name"] == "h2")
    assert (host["state"], host["address"]) == ("up", "127.0.0.2")
    assert set(host["queues"]) == {"cpu", "io", "memory"}
    assert host["slots"] == {"total": 2, "used": 0}
    assert {"index", "utilisation", "cores", "speed", "age_s", "tier", "jobs"} <= set(host)


async def test_memory_is_known_from_the_start(two):
    for lim in two:
        status = await lim.ask({"op": "status"})
        (here,) = (host for host in status["hosts"] if host["name"] == lim.lim.state.me)
        assert 0 < here["memory"]["available"] <= here["memory"]["total"]


async def test_a_command_goes_to_the_other_host_and_is_charged(two):
    one, other = two
    await other.ask(LBM)
    await until(lambda: one.lim.state.table.view(None, 0).hosts["h2"].why == "")
    reply = await one.ask({**PLACE, "must_leave": True})
    assert (reply["verdict"], reply["host"], reply["address"]) == ("there", "h2", "127.0.0.2:7902")
    assert {"name", "address", "load", "age_s", "willing", "why"} == set(reply["candidates"][0])
    counters = await one.ask({"op": "counters"})
    assert counters["charged_jobs"] == 1
    assert counters["decisions"] == {"lowest": 1}
    await one.ask({"op": "job", "event": "end", "job": "h1-1", "host": "h2"})
    assert (await one.ask({"op": "counters"}))["charged_jobs"] == 0


async def test_a_dry_question_charges_nobody(two):
    one, _ = two
    reply = await one.ask({**PLACE, "dry": True})
    assert reply["local_threshold"] == 0.7
    assert reply["load_here"] >= 0.0
    assert len(reply["candidates"]) == 2
    assert (await one.ask({"op": "counters"}))["charged_jobs"] == 0


async def test_the_load_at_which_a_command_stays_is_kept_with_it(tmp_path):
    lim = replace(LIM, local_threshold=1000.0)
    both = (config(tmp_path, name, lim=lim) for name in ("h1", "h2"))
    async with running(*both) as (one, other):
        await until(lambda: up(one, "h2") and up(other, "h1"))
        reply = await one.ask(PLACE)
    assert (reply["reason"], reply["local_threshold"]) == ("below-threshold", 1000.0)
    assert reply["load_here"] >= 0.0


async def test_the_end_of_the_lbm_is_noticed(two):
    one, other = two
    await other.ask(LBM)
    await until(lambda: one.lim.state.table.view(None, 0).hosts["h2"].why == "")
    connection = Connection(other.operations.handle, other.operations.closed, Crowd())
    connection.caller = replace(ROOT)  # another connection of the same process
    other.operations.closed(connection)
    assert other.lim.state.lbm.accepting
    connection.caller = ROOT
    other.operations.closed(connection)
    await until(
        lambda: one.lim.state.table.view(None, 0).hosts["h2"].why == "its LBM does not answer"
    )
    with pytest.raises(Refusal) as caught:
        await one.ask({**PLACE, "must_leave": True})
    assert caught.value.code == "unavailable"


async def test_algorithm_and_parameters_change_everywhere(two):
    one, other = two
    assert await one.ask({"op": "algorithm"}) == {"algorithm": "GLOBAL"}
    assert (await one.ask({"op": "algorithm", "name": "lowest"}))["algorithm"] == "LOWEST"
    reply = await one.ask({"op": "param", "name": "smoothing_s", "value": "9"})
    assert (reply["name"], reply["value"]) == ("load.smoothing_s", 9.0)
    await until(lambda: other.lim.state.in_force.load.smoothing_s == 9.0)
    assert other.lim.state.in_force.lim.algorithm == "LOWEST"
    assert other.lim.sampler.config.smoothing_s == 9.0
    reply = await one.ask({"op": "param", "name": "index", "value": "utilisation-10"})
    assert (reply["name"], reply["value"]) == ("load.index", "utilisation-10")
    await until(lambda: other.lim.sampler.config.index == "utilisation-10")
    status = await other.ask({"op": "status"})
    assert status["cluster"]["load_index"] == "utilisation-10"
    assert status["params"]["load.index"] == "utilisation-10"


async def test_a_site_specific_load_is_the_index(tmp_path, caplog):
    """One host measures it; on the other the smoothed index stands in, which is reported once."""
    said = tmp_path / "said"
    said.write_text("gpu 7\n")
    load = LoadConfig(
        scope="host", index="site:gpu", site_command=("cat", str(said)), site_period_s=0.2
    )
    first, second = config(tmp_path, "h1"), config(tmp_path, "h2")
    second = replace(second, load=replace(second.load, index="site:gpu"))
    async with running(replace(first, load=load), second) as (one, other):
        hosts = lambda: other.lim.state.table.entries  # noqa: E731
        sampled = lambda: hosts()["h1"].sample and hosts()["h1"].sample.vector  # noqa: E731
        await until(lambda: sampled() and sampled().index == 7.0)
        status = await other.ask({"op": "status"})
        assert [host["site"] for host in status["hosts"]] == [{"gpu": 7.0}, {}]
        said.write_text("gpu 3\n")
        await until(lambda: sampled().index == 3.0)
        assert (await one.ask({"op": "doctor"}))["site_fault"] == ""
        said.write_text("gpu much\n")
        await until(lambda: one.lim.site.fault)
    lines = [r.getMessage() for r in caplog.records if "site" in r.getMessage()]
    assert lines == [
        "load.index = site:gpu: load.site_command reports no such load now; using the smoothed "
        "index",
        'load.site_command cat: printed "gpu much", which is not a name and a number of at least '
        "0; its last values are used until they are too old",
    ]


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ({"op": "plaec"}, 'did you mean "place"'),
        ({}, "no operation"),
        ({"op": "place"}, '"job" must be a string'),
        ({**PLACE, "wanted": "h22"}, 'no host "h22" in this cluster; did you mean "h2"'),
        ({**PLACE, "excluded": ["zebra"]}, 'no host "zebra"'),
        ({**PLACE, "excluded": "h2"}, "must be a list"),
        ({**PLACE, "must_stay": 1}, "must be true or false"),
        ({**PLACE, "cpu_s": -1}, "must be a number of seconds"),
        ({"op": "algorithm", "name": "LOWST"}, 'did you mean "LOWEST"'),
        ({"op": "param", "name": "min_gian"}, 'did you mean "min_gain"'),
        ({"op": "param", "name": "min_gain", "value": "x"}, "min_gain"),
        ({"op": "drain", "host": "h3"}, 'no host "h3"'),
        ({"op": "job", "event": "begin", "job": "x"}, "allowed: start, end"),
        ({**LBM, "slots_total": -1}, "whole number"),
        ({**LBM, "slots_total": "many"}, "whole number"),
        ({"op": "cut", "hosts": "h2"}, "must be a list"),
    ],
)
async def test_a_bad_request_is_answered_with_one_line(two, request_, says):
    with pytest.raises(Refusal) as caught:
        await two[0].ask(request_)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.code == "usage"


@pytest.mark.parametrize(
    "request_",
    [
        LBM,
        PLACE,  # it is charged to a host
        {"op": "job", "event": "end", "job": "x"},
        {"op": "trouble", "host": "h2", "reason": "x"},
        {"op": "algorithm", "name": "NOLB"},
        {"op": "param", "name": "min_gain", "value": 1},
        {"op": "drain", "host": "h1"},
        {"op": "cut", "hosts": []},
    ],
)
async def test_only_an_administrator_may_change_things(two, request_):
    with pytest.raises(Refusal) as caught:
        await two[0].ask(request_, NOBODY)
    assert caught.value.code == "denied"


async def test_everybody_may_look(two):
    for request in ({"op": "status"}, {"op": "peers"}, {"op": "algorithm"}, {**PLACE, "dry": True}):
        await two[0].ask(request, NOBODY)


async def test_the_doctor_reaches_every_peer(two):
    one, _ = two
    reply = await one.ask({"op": "doctor"})
    (peer,) = reply["peers"]
    assert (peer["name"], peer["reachable"], peer["error"]) == ("h2", True, "")
    assert abs(peer["clock_skew_s"]) < 1.0
    assert reply["scope"] == "host"
    assert reply["fds_open"] > 0
    one.operations.has_expired = lambda name: name == "h2"
    (peer,) = (await one.ask({"op": "doctor"}))["peers"]
    assert (peer["reachable"], peer["error"]) == (False, "the certificate of h2 has expired")
    await one.ask({"op": "cut", "hosts": ["h2"]})
    (peer,) = (await one.ask({"op": "doctor"}))["peers"]
    assert (peer["reachable"], peer["error"]) == (False, "h2: cut off")


async def test_users_who_ask_for_the_doctor_make_no_more_messages_than_one(two):
    """Five hundred questions a second by one user caused as many messages to each host."""
    one, other = two
    heard, answer = [], other.lim.answer

    def counted(message):
        heard.append(message.body)
        return answer(message)

    host = other.lim.config.host
    await other.network.serve(host.address, other.lim.config.lim.port, counted)
    replies = await asyncio.gather(*(one.ask({"op": "doctor"}, NOBODY) for _ in range(50)))
    assert [reply["peers"][0]["reachable"] for reply in replies] == [True] * 50
    assert sum(isinstance(body, m.Ping) for body in heard) == 1


async def test_doctor_reports_no_settings_that_have_changed_since(two):
    """A user asked just before: a cached answer would say that the others still use NOLB."""
    one, other = two
    await one.ask({"op": "algorithm", "name": "NOLB"})
    assert (await one.ask({"op": "doctor"}, NOBODY))["peers"][0]["algorithm"] == "NOLB"
    await one.ask({"op": "algorithm", "reset": True})
    reply = await one.ask({"op": "doctor"}, NOBODY)
    said = [(peer["algorithm"], peer["same_settings"]) for peer in reply["peers"]]
    assert (reply["algorithm"], said) == ("GLOBAL", [("GLOBAL", True)])
    other.lim.state.settings = m.Settings()  # as one that has not heard of the change
    assert (await one.ask({"op": "doctor"}))["peers"][0]["same_settings"] is False


async def test_a_failing_host_is_avoided(two):
    one, other = two
    await other.ask(LBM)
    await until(lambda: one.lim.state.table.view(None, 0).hosts["h2"].why == "")
    await one.ask({"op": "trouble", "host": "h2", "reason": "connection refused"})
    reply = await one.ask({**PLACE, "dry": True})
    whys = {c["name"]: c["why"] for c in reply["candidates"]}
    assert whys["h2"] == "avoided: connection refused"


@pytest.mark.parametrize("algorithm", ["LOWEST", "CENTRAL"])
async def test_questions_to_other_hosts_have_a_deadline(tmp_path, algorithm):
    lim = replace(LIM, algorithm=algorithm, local_threshold=0.0)
    async with running(*(config(tmp_path, name, lim=lim) for name in ("h1", "h2"))) as (one, other):
        await until(lambda: up(other, "h1"))
        one.network.silent = True
        other.lim.state.table.charge("h2", "busy", asyncio.get_running_loop().time())
        began = asyncio.get_running_loop().time()
        reply = await other.ask(PLACE)
        assert reply["verdict"] == "here"
        assert asyncio.get_running_loop().time() - began < 1.0


async def test_a_task_that_dies_stops_the_daemon_which_says_which(tmp_path):
    daemon = Daemon(config(tmp_path), None)

    def broken(_now_s):
        raise ZeroDivisionError("no queues today")

    daemon.lim.sampler.read = broken
    with pytest.raises(LbdError, match="the sampling loop died: ZeroDivisionError"):
        await daemon.lim.run(daemon.stop)


async def test_a_host_that_comes_and_goes_does_not_fill_the_log(two, caplog):
    lim = two[0].lim
    caplog.set_level("INFO")
    caplog.clear()
    lim.perform([Log(f"host h9 is here, {number}", peer="h9") for number in range(1000)])
    lim.perform([Log("host h8 is here", peer="h8"), Log("nobody's line")])
    said = caplog.messages
    assert sum("h9" in line for line in said) in range(int(LINES_AT_ONCE), 200)
    assert {"host h8 is here", "nobody's line"} <= set(said)


@pytest.mark.parametrize("kind", ["drains", "settings"])
async def test_a_host_that_drains_or_sets_without_end_does_not_fill_the_log(
    kind, two, caplog, monkeypatch
):
    """Whatever author it names in its settings."""
    monkeypatch.setattr("lbd.lim.daemon.LINES", Lines())
    lim = two[0].lim
    caplog.set_level("INFO")
    caplog.clear()
    incarnation = lim.state.table.entries["h2"].member.incarnation
    for number in range(1000):
        body = (
            m.Drain(number % 2 == 0)
            if kind == "drains"
            else m.Settings(number + 1, f"h{number}", "GLOBAL", {"t_cpu_s": 1.0 + number})
        )
        lim.answer(m.Message(lim.state.identity.cluster, "h2", incarnation, body))
    said = sum("drained" in line or "settings" in line for line in caplog.messages)
    assert said in range(int(LINES_AT_ONCE), 200)


def test_a_line_says_how_many_were_left_out(caplog):
    caplog.set_level("INFO")
    lines = Lines()
    for number in range(150):
        lines.say(Log(f"drained {number}"), 1.0, "h2")
    lines.say_left_out(1.0)
    lines.say(Log("host h2 is down", peer="h2"), 1.0)
    assert caplog.messages[int(LINES_AT_ONCE) :] == ["host h2 is down"]
    caplog.clear()
    lines.say_left_out(1.0 + 1 / LINES_PER_S)
    lines.say_left_out(1.0 + 9 / LINES_PER_S)
    assert caplog.messages == ["50 more lines about what host h2 has sent were left out"]


async def test_what_a_host_replies_counts_as_sent_by_it(two, monkeypatch):
    said = []
    monkeypatch.setattr("lbd.lim.daemon.LINES.say", lambda *given: said.append(given[2]))
    lim = two[0].lim
    monkeypatch.setattr(lim.state, "handle", lambda *_: [Log("host h9 is here", peer="h9")])
    lim.handle(Replied("h2", m.Ping(), m.Message("lbd", "h2", 1, m.Ack())), 1.0)
    assert said == ["h2"]


async def test_a_goodbye_is_sent(two):
    one, other = two
    other.stop.set()
    await until(lambda: one.lim.state.table.entries["h2"].left)


async def test_the_second_host_of_a_name_stops_with_one_line(tmp_path):
    async with running(config(tmp_path, "h1"), config(tmp_path, "h2")) as (one, _):
        await until(lambda: up(one, "h2"))
        second = config(tmp_path / "x", "h2")
        second = replace(second, host=replace(second.host, address="127.0.0.77"))
        daemon = Daemon(second, one.network._exchange)
        await daemon.start()
        with pytest.raises(LbdError, match=r"the name h2 is taken by 127\.0\.0\.2:7901"):
            await daemon.task


def test_an_unwritable_state_directory(tmp_path):
    (tmp_path / "file").write_text("")
    broken = config(tmp_path)
    broken = replace(broken, host=replace(broken.host, state_dir=str(tmp_path / "file/state")))
    with pytest.raises(ConfigError, match=r"host\.state_dir"):
        Lim(broken, None)


async def test_no_answer_of_another_host_ends_a_lim(two, monkeypatch, caplog):
    """Whatever it is that an answer cannot be taken in for."""
    one, _ = two
    heard, handle = [], one.lim.handle

    def handled(event, now_s):
        if isinstance(event, Replied):
            raise KeyError("of another host's making")
        heard.append(event)
        return handle(event, now_s)

    monkeypatch.setattr(one.lim, "handle", handled)
    await until(lambda: any(isinstance(event, Undelivered) for event in heard))
    assert "is left aside: KeyError" in caplog.text
    monkeypatch.undo()
    assert (await one.ask({"op": "status"}))["hosts"]
    assert not one.lim.failure
