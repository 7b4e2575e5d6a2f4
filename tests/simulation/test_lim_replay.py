"""A LIM's history holds every input of its decisions: replayed, it decides the same."""

import json

import pytest

from lbd.cli.main import main
from lbd.config.schema import ALGORITHMS
from lbd.errors import ConfigError
from lbd.lim.core import events as e
from lbd.lim.core import messages as m
from lbd.lim.core.broadcast import sends
from lbd.model import HostId
from lbd.sim.faults.replay import Divergence, Replay
from lbd.sim.faults.schedule import FaultRun
from lbd.testing.builders import lim_state, member, sample
from lbd.testing.virtual_cluster import VirtualCluster


def histories(algorithm, seed):
    run = FaultRun(algorithm, seed, 4, VirtualCluster)
    run.cluster.check_each_event = False
    run.cluster.histories = []
    run.run()
    return run, run.cluster.histories


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_lim_of_a_cluster_under_faults_decides_the_same_in_the_replay(algorithm):
    run, found = histories(algorithm, 5)
    decisions = 0
    for history in found:
        replay = Replay()
        for line in history:
            replay.feed(line)
        assert replay.lines == len(history)
        decisions += sum(n for what, n in replay.seen.items() if what.startswith("decisions"))
    assert len(found) > len(run.names)  # some were restarted
    assert decisions >= run.decided > 20


@pytest.fixture(scope="module")
def history():
    return histories("GLOBAL", 5)[1][0]


def fed(lines):
    replay = Replay()
    for line in lines:
        replay.feed(line)


def test_one_answer_that_differs_is_found(history):
    number = next(n for n, line in enumerate(history) if '"settle"' in line)
    now_s, call, given, gave = json.loads(history[number])
    gave["of"][1] = "h9"
    wrong = json.dumps([now_s, call, given, gave])
    with pytest.raises(Divergence, match=rf"line {number + 1}: settle gave then .*h9.* now"):
        fed([*history[:number], wrong])


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "line 1: it is no history"),
        ("[1, 2]", "line 1: it is no history"),
        ("[" * 100_000, "line 1: it is no history"),
        ('[1, "handle", {"is": "model.Place", "of": []}, []]', "no history|does not know"),
        ('[1, "handle", {"map": [[]]}, []]', "no history"),
        ('[1, "handle", [], []]', "no history of a LIM"),
        ('[1, "__init__", [], []]', "no history of a LIM"),
        ('[1, "handle", {"is": "os.system", "of": ["ls"]}, []]', "does not know"),
        ('[1, "handle", {"what": 1}, []]', "damaged"),
        ("[1, 7, [], []]", "no history"),
        ('[1, "lbd-lim-history-1", [], null]', "another release"),
    ],
)
def test_a_file_that_is_no_history_is_refused(line, says):
    with pytest.raises(ConfigError, match=says):
        fed([line])


def test_a_senseless_line_is_named(history):
    with pytest.raises(ConfigError, match="line 3: it is no call of a LIM"):
        fed([*history[:2], "[1, 7]"])


def test_the_state_it_was_made_from_must_be_complete(history):
    now_s, call, given, gave = json.loads(history[0])
    with pytest.raises(ConfigError, match="no history of a LIM"):
        fed([json.dumps([now_s, call, given[:-1], gave])])


def test_an_input_that_this_release_rejects_is_a_difference_not_a_traceback(history):
    with pytest.raises(Divergence, match="line 2: settle gave then null and fails now: TypeError"):
        fed([history[0], '[1, "settle", [1], null]'])


def test_only_methods_that_the_daemon_calls_are_called(history):
    with pytest.raises(ConfigError, match="a LIM has no '__class__'"):
        fed([history[0], '[1, "__class__", [], []]'])


def test_a_broadcast_counts_as_a_message_to_each():
    replay = Replay()
    state = lim_state("h1", others=("h2", "h3"), write=replay.feed)
    state.start()
    assert state.handle(e.Stopping(), 0.5) == []  # nobody is there
    for number, name in enumerate(("h2", "h3"), 2):
        hello = m.Hello(member(name, number - 1), wants_members=False)
        state.handle(e.Received(m.Message("test", HostId(name), 1, hello)), 1.0)
        said = m.Report(sample(name, 1))
        state.handle(e.Received(m.Message("test", HostId(name), 1, said)), 1.0)
    before = replay.seen["messages sent"]
    (leave,) = state.handle(e.Stopping(), 2.0)
    assert leave == e.Broadcast(("h2", "h3"), m.Leave(), leave.timeout_s)
    assert replay.seen["messages sent"] == before + 2
    assert [(send.to, send.target) for send in sends(state.table, leave)] == [
        (name, member(name).lim_target) for name in ("h2", "h3")
    ]


def test_the_command(history, tmp_path, capsys):
    good, cut = tmp_path / "good.jsonl", tmp_path / "cut.jsonl"
    good.write_text("\n".join(history) + "\n")
    cut.write_text("\n".join(history) + "\n" + history[-1][:9])  # killed while it wrote
    assert main(["sim", "replay", str(good), str(cut)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert all(line.endswith("all as recorded") for line in lines)
    bad = tmp_path / "bad.jsonl"
    bad.write_text("\n".join([history[0], history[-1]]) + "\n")
    assert main(["sim", "replay", "--json", str(bad)]) in (0, 1)
    found = json.loads(capsys.readouterr().out)["histories"][0]
    assert found["lines"] == 2
