import json
from dataclasses import replace

import pytest

from lbd.cli.main import main
from lbd.sim.balance.engine import Engine
from lbd.sim.balance.lims import Lims
from lbd.sim.balance.runs import half_width, mean_and_sd, outcome, run_once, summed_up
from lbd.sim.balance.setup import EVERY, Setup, with_settings
from lbd.sim.balance.workload import WORKLOADS, Job

BERKELEY = WORKLOADS["berkeley"]
SMALL = Setup(BERKELEY, hosts=6, duration_s=300.0)


@pytest.mark.parametrize("algorithm", EVERY)
def test_a_run_depends_only_on_its_seed(algorithm):
    first, again = (run_once(SMALL, algorithm, 3) for _ in range(2))
    assert first == again
    assert first.jobs == sum(first.seen.values())
    assert run_once(SMALL, algorithm, 4).mean_response_s != first.mean_response_s


@pytest.mark.parametrize("algorithm", [name for name in EVERY if name != "NOLB"])
@pytest.mark.parametrize(
    "words",
    [
        ["speeds=1,4", "cores=1,2"],
        ["smoothing_s=4", "quantum_s=0.5", "cores=1.5"],
        ["index=utilisation-10"],
        ["index=queue-1", "window_s=1"],
        ["index=smoothed", "disks=1"],
    ],
)
def test_unequal_hosts_and_a_smoothed_index(algorithm, words):
    """Every job ends, and some have moved."""
    run = run_once(with_settings(SMALL, words), algorithm, 0)
    assert run.mean_response_s > 0
    assert run.moved > 0
    assert run.wrong <= run.moved


@pytest.mark.parametrize("algorithm", EVERY)
def test_immobile_jobs_stay(algorithm):
    assert run_once(with_settings(SMALL, ["immobile=1"]), algorithm, 0).moved == 0


def test_a_window_reports_its_mean_at_its_end():
    """One job of ten seconds from the start."""
    engine = Engine(with_settings(replace(SMALL, hosts=1), ["window_s=1"]))
    engine.placement = lims = Lims(engine, "LOWEST", "seed")
    told = []

    def look(_, now_s):
        if not told or told[-1][1] != lims.hosts[0].index:
            told.append((now_s, lims.hosts[0].index))

    for hundredth in range(1300):
        engine.at(hundredth / 100, look, None)
    engine.run([Job(0, 0, 0.0, 10.0, 0, False)])
    (_, nothing), (first_s, full), (part_s, part), (_, idle) = told
    assert (nothing, full, idle) == pytest.approx((-1.0, 1.0, 0.0))
    assert (part_s - first_s) % 1.0 == pytest.approx(0.0, abs=0.011)
    assert part == pytest.approx(1.0 - (part_s - 10.0), abs=0.011)


def test_messages_and_moves_cost_what_was_configured():
    words = ["send_s=0", "receive_s=0", "transfer_s=0"]
    assert run_once(with_settings(SMALL, words), "LOWEST", 0).overhead_share == 0
    run = run_once(SMALL, "RANDOM", 0)
    power_s = SMALL.hosts * SMALL.duration_s
    assert run.overhead_share == pytest.approx(run.moved * 2 * 0.1 / power_s)
    assert run.messages_per_host_s == 0


@pytest.mark.parametrize(("there", "wrong"), [(1, 0), (8, 0), (15, 0), (16, 1)])
def test_a_busier_host_has_more_jobs_per_core(there, wrong):
    """Two jobs on one core equal sixteen on eight."""
    engine = Engine(with_settings(replace(SMALL, hosts=2), ["cores=1,4", "speeds=1,2"]))
    for host, jobs in ((0, 2), (1, there)):
        for number in range(jobs):
            engine.start(Job(number, host, 0.0, 10.0, 0), host, 0.0)
    engine.move(Job(99, 0, 0.0, 10.0, 0), 1, 0.0)
    assert (engine.moved, engine.wrong) == (1, wrong)


def test_the_sum_of_runs():
    nolb = [run_once(SMALL, "NOLB", n) for n in range(3)]
    lowest = [run_once(SMALL, "LOWEST", n) for n in range(3)]
    found = summed_up(lowest, nolb)
    pairs = zip(lowest, nolb, strict=True)
    ratios = [run.mean_response_s / base.mean_response_s for run, base in pairs]
    assert found.ratio_to_nolb == pytest.approx(sum(ratios) / 3)
    assert summed_up(nolb, nolb).ratio_to_nolb == 1.0
    alone = summed_up(lowest[:1], nolb[:1])  # its interval is over its parts
    assert alone.ci95_s > 0


@pytest.mark.parametrize("count", [10, 19, 25])
def test_the_parts_of_a_run_contain_all_its_jobs(count):
    engine = Engine(SMALL)
    jobs = [
        Job(n, 0, 0.0, 1.0, 0, response_s=1.0 if n < count - 1 else 1000.0) for n in range(count)
    ]
    parts = outcome(engine, "NOLB", jobs).part_means_s
    assert len(parts) == 10
    assert max(parts[:-1]) == 1.0
    assert parts[-1] > 100.0  # the last job's, which is the longest


def test_intervals():
    assert mean_and_sd([1.0, 2.0, 3.0]) == (2.0, 1.0)
    assert half_width([1.0, 2.0, 3.0]) == pytest.approx(4.303 / 3**0.5)


def test_the_program_prints_what_the_contract_says(capsys):
    words = ["sim", "balance", "--hosts", "3", "--duration", "60s", "--replications", "2",
             "--workers", "1", "--seed", "5", "--algorithm", "lowest", "--json"]  # fmt: skip
    assert main(words) == 0
    out, err = capsys.readouterr()
    reply = json.loads(out)
    assert err == ""
    assert (reply["schema"], reply["hosts"], reply["workload"], reply["seed"]) == (
        1, 3, "berkeley", 5,
    )  # fmt: skip
    (result,) = reply["results"]
    assert result["algorithm"] == "LOWEST"
    assert result.keys() >= {
        "mean_response_s", "sd_response_s", "ci95_s", "ratio_to_nolb", "transferred",
        "wrong_transfers", "messages_per_host_s",
    }  # fmt: skip
    assert main(words) == 0
    assert capsys.readouterr().out == out


def answer(capsys, *words):
    assert main(["sim", "balance", "--algorithm", "GLOBAL", "--json", *words]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(("utilisation", "length_s"), [("0.1", 1001.0), ("0.5", 201.0)])
def test_a_stretched_trace_is_simulated_to_its_end(capsys, tmp_path, utilisation, length_s):
    """Two hosts at load 1 for 100 s; the last job is by far the longest."""
    trace = tmp_path / "jobs.csv"
    trace.write_text("".join(f"{at} {100 if at == 100 else 1}\n" for at in range(101)))
    words = ["--workload", str(trace), "--hosts", "2", "--replications", "1"]
    found = answer(capsys, *words, "--utilisation", utilisation)
    assert (found["utilisation"], found["duration_s"]) == (float(utilisation), length_s)
    assert found["results"][0]["mean_response_s"] > 1.9


def test_a_table_in_the_format_of_office_programs(capsys, tmp_path):
    trace = tmp_path / "jobs.csv"
    trace.write_bytes(b"\xef\xbb\xbfarrival_s,cpu_s\r\n1,3\r\n9,3\r\n")
    found = answer(capsys, "--workload", str(trace), "--hosts", "1", "--replications", "1")
    assert found["results"][0]["mean_response_s"] == pytest.approx(3.0)


def test_jobs_that_all_arrived_at_once_have_no_utilisation(capsys, tmp_path):
    trace = tmp_path / "jobs.csv"
    trace.write_text("5 1\n5 2\n5 3\n")
    words = ["--workload", str(trace), "--hosts", "2", "--replications", "1"]
    assert answer(capsys, *words)["utilisation"] is None
    assert main(["sim", "balance", *words, "--utilisation", "0.5"]) == 2
    assert "at once" in capsys.readouterr().err


def test_the_program_prints_a_table_with_nolb_first(capsys):
    words = ["sim", "balance", "--hosts", "3", "--duration", "30s", "--replications", "1"]
    assert main([*words, "--workers", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:]] == list(EVERY)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--algorithm", "LOWST"], 'did you mean "LOWEST"'),
        (["--workload", "nowhere"], 'no workload "nowhere"'),
        (["--hosts", "0"], "1 to 10000"),
        (["--utilisation", "1.2"], "between 0 and 1"),
        (["--duration", "soon"], "--duration"),
        (["--set", "x"], "PARAM=VALUE"),
        (["--hosts", "1", "--utilisation", "1e-4", "--duration", "1s", "--workers", "1"], "no job"),
    ],
)
def test_invalid_options_are_refused(capsys, words, part):
    assert main(["sim", "balance", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert part in err
    assert err.startswith("lbd sim")
    assert err.count("\n") == 1
