"""Slurm's command lines: which option of lbrun each becomes, and which are refused by name."""

import re

import pytest

from lbd.slurm import sacct, scancel, scontrol, sinfo, squeue, srun
from lbd.slurm.options import LET_BE, SlurmError, read
from lbd.slurm.queue import SHOWN_S, Job, reason_of, state_of
from lbd.slurm.sbatch import GRAMMAR, lbrun_words, signal_words
from lbd.slurm.script import in_script, shebang
from lbd.slurm.times import begin_text, elapsed, limit_s, memory_text, moment, short_elapsed
from lbd.text.job_phrases import LAUNCHER

ROW = {
    "id": "12_7", "array_id": "12", "array_index": 7, "name": "fit", "user": "ann", "host": "h2",
    "state": "failed", "exit_status": 137, "slots": 4, "priority": 0, "submitted": 100.0,
    "started": 160.0, "finished": 3760.0, "cpu_s": 20.0, "command": ["sh"], "reason": None,
}  # fmt: skip
JOB = Job(ROW)


def words(*given, script="#!/bin/sh\n"):
    typed, faults = read(list(given), GRAMMAR), []
    found = typed.over(in_script(script, "s.sh", faults, GRAMMAR))
    if faults:
        raise SlurmError("\n".join(faults))
    return " ".join(lbrun_words(found, "s.sh"))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["-J", "x"], "--name x"),
        (["-c4"], "-n 4"),
        (["--cpus-per-task=4"], "-n 4"),
        (["--depend=afterok:3"], "--after-ok 3"),  # abbreviated
        (["-t", "1-02:03:04"], "--timeout 93784"),
        (["--mem", "4G"], "--mem 4194304K"),
        (["--mem=100"], "--mem 102400K"),
        (["-c", "2", "--mem-per-cpu", "1G"], "--mem 2097152K"),
        (["-a", "1-9:2%3"], "--array 1-9:2%3"),
        (["-a", "1-9:2%3"], "SLURM_ARRAY_TASK_COUNT=5"),
        (["-D", "/tmp"], "-C /tmp"),
        (["-o", "a.%A.%a.%N.%x"], "-o a.%A.%a.%h.s.sh"),
        ([], "-o slurm-%j.out"),
        (["-a", "1-2"], "-o slurm-%A_%a.out"),
        (["-e", "err"], "--error err"),
        (["-w", "h3", "-x", "h1,h2"], "-H h3 -x h1 -x h2"),
        (["--no-requeue"], "--no-restart"),
        (["-b", "now+2hours"], "--begin +7200s"),
        (["--begin", "17:30"], "--begin 17:30"),
        (["--export=NONE"], "--clean-env"),
        (["--export=ALL,A=b"], "-e A=b"),
        (["-d", "afterok:12:13,afterany:14_2"], "--after-ok 12,13 --after-any 14_2"),
        (["-d", "afternotok:12,aftercorr:13"], "--after-failed 12 --after-task 13"),
        (["--gres=gpu:2"], "--need gpu=2"),
        (["--gres=gpu,gres/licence:3"], "--need gpu=1 --need licence=3"),
        (["-G", "2", "--gres=gpu:2"], "--need gpu=2"),
        (["--gpus-per-node=2", "-G2"], "--need gpu=2"),
        (["--open-mode=append", "-o", "x", "-e", "y"], "-o x --error y --append"),
        (["-C", "avx2&big"], "--feature avx2 --feature big"),
        (["-n", "1", "-N1", "-p", "lbd"], "--name s.sh -n 1"),
        (["-n", "3", "-c2"], "-n 6 -e SLURM_JOB_NAME"),
        (["-n", "3"], "SLURM_NTASKS=3"),
        (["-N1", "--tasks-per-node", "3", "--mem-per-cpu=1M"], "--mem 3072K"),
        (["-J=fit"], "--name fit"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_how_an_option_is_translated(given, expected):
    assert expected in words(*given)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (["--gres=gpu:a100:1"], "--gres gpu:a100:1 is not supported by lbd"),
        (["--gres=gpu:0"], "--gres gpu:0 is not supported by lbd"),
        (["--gpus=a100:1"], "--gpus a100:1 is not supported by lbd"),
        (["--gpus=2", "--gres=gpu:1"], "--gpus 2: 1 of gpu are asked for as well"),
        (["-C", "avx|sve"], "--constraint avx|sve is not supported by lbd"),
        (["-C", "[a&b]"], "--constraint [a&b] is not supported by lbd"),
        (["-C", "a*2"], "--constraint a*2 is not supported by lbd"),
        (["-C", "a&"], "--constraint a& is not supported by lbd"),
        (["--gpus-per-node=a100:1"], "--gpus-per-node a100:1 is not supported by lbd"),
        (["--gpus-per-task=1"], "--gpus-per-task 1 is not supported by lbd; use --gres gpu:N for"),
        (["--tmp=1G"], "--tmp 1G is not supported by lbd; use --gres NAME:N for what hosts have"),
        (["-L", "x:1"], "--licenses x:1 is not supported by lbd; use --gres NAME:N"),
        (["--mem-per-gpu=1G"], "--mem-per-gpu 1G is not supported by lbd; use --mem SIZE"),
        (["-H"], "--hold is not supported"),
        (["--exclusive"], "--exclusive is not supported"),
        (["--foo"], "unrecognized option '--foo'"),
        (["-y"], "invalid option -- 'y'"),
        (["--mem"], "option '--mem' requires an argument"),
        (["--parsable=1"], "doesn't allow an argument"),
        (["-n", "4", "--ntasks-per-node=2"], "--ntasks and --ntasks-per-node differ"),
        (["-N", "2-3"], "--nodes 2-3 is not supported"),
        (["-p", "long"], "--partition long: lbd has only the partition lbd; take it out, or set"),
        (["-t", "soon"], "Invalid --time specification 'soon'"),
        (["--mem", "4X"], "Invalid --mem specification '4X'"),
        (["-c", "0"], "Invalid numeric value '0'"),
        (["-d", "singleton"], "--dependency singleton is not supported"),
        (["-d", "after:3"], "--dependency after:3 is not supported"),
        (["-d", "afterok:3?afterok:4"], "not for any (?)"),
        (["-o", "x.%s"], "%s is not supported"),
        (["-o", "x.%5j"], "--output x.%5j: %5j is not supported"),
        (["-d", "afterok:3,afterany:"], "--dependency afterany:: a job's id is missing after a"),
        (["-w", "h[1-2],h4"], "name one host"),
        (["-a", "5-1"], "--array"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_unsupported_option_is_refused_by_name(given, complaint):
    with pytest.raises(SlurmError) as caught:
        words(*given)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_variable_is_suggested_where_the_rest_would_not_be_what_was_wanted():
    with pytest.raises(SlurmError, match=r"^--start .*`lbctl job ID` says when a job begins$"):
        squeue.run(["--start"])
    with pytest.raises(SlurmError, match=r"job begins; take --qos out, or set .*IGNORE=qos$"):
        squeue.run(["--start", "--qos", "x"])


@pytest.mark.parametrize(
    ("signal", "time", "expected"),
    [
        ("B:USR2@30", "00:10:00", ["USR2", "570"]),
        ("B:SIGUSR1", "2", ["USR1", "60"]),
        ("B:10@600", "1", ["10", "1"]),  # at once
        ("B:USR2@30", "0", ["", ""]),
    ],
)
def test_the_script_gets_a_signal_before_its_time_is_over(signal, time, expected):
    assert signal_words({"signal": signal, "time": time}) == expected
    assert signal_words({"time": time}) == ["", ""]


@pytest.mark.parametrize(
    "signal", ["USR1@60", "R:USR1", "RB:USR1", "B:FOO", "B:USR1@", "B:0", "B:"]
)
def test_a_signal_that_only_slurm_can_send_is_refused(signal):
    with pytest.raises(SlurmError, match=r"--signal .* is not supported"):
        signal_words({"signal": signal})


def test_srun_says_what_its_process_is():
    given = read(["-c", "2", "-J", "fit", "--mem=4M", "x"], srun.GRAMMAR)
    found = " ".join(srun.lbrun_words(given))
    for one in ("SLURM_NTASKS=1", "SLURM_PROCID=0", "SLURM_CPUS_PER_TASK=2", "SLURM_NPROCS=1",
                "SLURM_JOB_NAME=fit", "SLURM_MEM_PER_NODE=4", "SLURM_JOB_NUM_NODES=1"):  # fmt: skip
        assert f"-e {one}" in found


def test_a_terminal_is_not_waited_for_in_the_queue(monkeypatch):
    ran = []
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setattr("lbd.client.lbrun.main", ran.append)
    for words, how in ((["--pty", "-t", "5", "bash"], "-t"), (["true"], "-q")):
        srun.run(words)
        assert ran[-1][0] == how
    assert "--timeout 300" in " ".join(ran[0])


@pytest.mark.parametrize(
    ("given", "meant"), [("H2", '; did you mean "h2"?'), ("zz", "; `sinfo` lists them")]
)
def test_srun_refuses_a_host_that_does_not_exist(monkeypatch, given, meant):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setattr(sinfo, "hosts", lambda: [{"name": "h1"}, {"name": "h2"}])
    said = f"Invalid node name specified: no host {given} in this cluster{meant}"
    with pytest.raises(SlurmError, match=re.escape(said)):
        srun.run(["-w", given, "true"])
    srun.check_host("h2")
    srun.check_host("")


def test_srun_starts_several_processes_only_within_a_job():
    with pytest.raises(SlurmError, match=r"^--ntasks 2 is .*use sbatch -n 2 --wait --wrap 'srun "):
        srun.run(["-n2", "true"])
    with pytest.raises(SlurmError, match=r"^--label is not supported by lbd outside a job of sb"):
        srun.run(["-l", "true"])


def test_squeue_forgets_jobs_that_ended_some_minutes_ago(monkeypatch, capsys):
    now_s = JOB.finished + SHOWN_S - 1
    monkeypatch.setattr(squeue, "jobs", lambda ids: [JOB])
    monkeypatch.setattr(squeue, "recent", lambda users, since_s: ([JOB], 0))
    monkeypatch.setattr(squeue.time, "time", lambda: now_s)
    assert squeue.run(["-h", "-j", "12_7"]) == 0
    assert capsys.readouterr().out == ""  # it has ended
    assert squeue.run(["--noheader", "-o", "%i %t", "-t", "all", "-u", "ann"]) == 0
    assert capsys.readouterr().out == "12_7 F\n"
    now_s += 2
    assert squeue.run(["--noheader", "-o", "%i %t", "-t", "all", "-u", "ann"]) == 0
    assert capsys.readouterr().out == ""
    with pytest.raises(SlurmError, match="Invalid job id specified"):
        squeue.run(["-j", "12_7"])


def test_squeue_skips_unknown_ids_if_there_are_several(monkeypatch, capsys):
    def jobs(ids):
        if unknown := [one for one in ids if one != "12_7"]:
            raise SlurmError(f"no job {unknown[0]} in the queue")
        return [JOB]

    monkeypatch.setattr(squeue, "jobs", jobs)
    monkeypatch.setattr(squeue.time, "time", lambda: JOB.finished)
    assert squeue.run(["-h", "-j", "12_7,99", "-t", "all", "-o", "%i"]) == 0
    assert capsys.readouterr().out == "12_7\n"
    assert squeue.run(["-h", "-t", "PD,R,CF,CG", "-j", "12_7"]) == 0
    assert capsys.readouterr().out == ""
    with pytest.raises(SlurmError, match=r"^slurm_load_jobs error: Invalid job id specified$"):
        squeue.run(["-h", "-j", "99"])


def test_lines_of_the_script_count_until_its_first_command_and_less_than_the_command_line():
    script = (
        "#!/bin/bash\n\n# by hand\n#SBATCH -c 2 # two\n#SBATCH --job-name='a b'\n"
        "echo\n#SBATCH --foo\n"
    )
    assert "--name a b -n 2" in words(script=script)
    assert "--name a b -n 3" in words("-c", "3", script=script)


@pytest.mark.parametrize(
    "line",
    ["#SBATCH --foo", "#SBATCH -J 'x", "#SBATCH word", "#SBATCH -c"],
)
def test_an_unreadable_line_is_named_by_its_number(line):
    with pytest.raises(SlurmError, match=r"^s\.sh: line 3: "):
        words(script=f"#!/bin/sh\n\n{line}\n")


def test_options_that_a_site_ignores_are_skipped(monkeypatch):
    monkeypatch.setenv(LET_BE, "account,partition,gres")
    assert "-n 2" in words("-A", "x", "-p", "long", "--gres=gpu:1", "-c", "2")
    with pytest.raises(SlurmError):
        words("--qos", "x")


def test_a_script_needs_an_interpreter():
    assert shebang(b"#!/usr/bin/env bash\n", "s") == ("/usr/bin/env", "bash")
    assert shebang(b"#! /bin/sh -e -u\n", "s") == ("/bin/sh", "-e -u")
    for script in (b"echo\n", b"", b"#!\n"):
        with pytest.raises(SlurmError, match="does not look like a batch script"):
            shebang(script, "s")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 5400), ("1:30", 90), ("1:00:00", 3600), ("2-0", 172800), ("1-1:30", 91800),
     ("UNLIMITED", 0)],
)  # fmt: skip
def test_time_limits(text, seconds):
    assert limit_s(text) == seconds


def test_a_job_that_waits_for_its_time_has_that_as_its_start():
    given = Job({**ROW, "state": "pending", "started": None, "begin": 1e9})
    shown = dict(scontrol.described(given, given))
    assert shown["StartTime"] == moment(1e9, "")
    assert dict(scontrol.described(JOB, given))["StartTime"] == moment(160.0, "")


def test_scontrol_names_whole_paths_and_when_a_running_job_ends_at_the_latest():
    running = ROW | {"state": "running", "finished": None}
    given = Job(running | {"directory": "/d", "output": "o.%a", "error": "/e", "timeout_s": 60.0})
    shown = dict(scontrol.described(Job(running), given))
    assert (shown["StdOut"], shown["StdErr"]) == ("/d/o.7", "/e")
    assert shown["EndTime"] == moment(220.0, "")
    assert dict(scontrol.described(Job(running), Job(running)))["EndTime"] == "Unknown"


def test_scontrol_refuses_to_update_one_task_since_all_would_change():
    line = "12_4: the tasks of an array can only be changed together; name the array, 12"
    with pytest.raises(SlurmError) as problem:
        scontrol.update(["JobId=12_4", "TimeLimit=0:30:00"])
    assert str(problem.value) == line


def test_times_and_sizes():
    assert elapsed(93784) == "1-02:03:04"
    assert [short_elapsed(n) for n in (5, 65, 3665, 93784)] == [
        "0:05", "1:05", "1:01:05", "1-02:03:04"]  # fmt: skip
    assert memory_text("mem", "0") == ""
    assert memory_text("mem", "1TB") == "1073741824K"
    assert begin_text("now") == ""
    with pytest.raises(SlurmError):
        begin_text("now+2moons")


def test_states_and_reasons():
    ends = "pending", "running", "done", "cancelled", "lost"
    assert [state_of(one, "") for one in ends] == [
        "PENDING", "RUNNING", "COMPLETED", "CANCELLED", "NODE_FAIL"]  # fmt: skip
    said = {"after 12 has succeeded": "Dependency", "not before 17:30": "BeginTime",
            "held by ann": "JobHeldUser", "next, as soon as a slot": "Resources",
            "2 tasks of its array may run at once (%2)": "JobArrayTaskLimit",
            "it needs 8 slots on one host; the largest host has 2": "BadConstraints",
            "it needs 8 slots on h3, which has 2": "BadConstraints",
            "it needs 8 slots on one host; the largest host has 2; h3: drained": "Resources",
            "no host has 8.0G of memory; the largest has 2.0G; it starts once a host has what it "
            "needs": "BadConstraints",
            "h1: no gpu; it starts once a host has what it needs": "Resources",
            "it may run only on h1 (-H), which accepts no jobs now: drained": "ReqNodeNotAvail",
            "it may run only on h1 (-H): h1 was stopped; it begins when h1 is back":
                "ReqNodeNotAvail",
            "starting on h2": "None", "": "None", "3 jobs are ahead of it": "Priority"}  # fmt: skip
    assert {text: reason_of("pending", text) for text in said} == said
    assert JOB.exit_code == "0:9"


def test_formats_of_squeue():
    def shown(*given, job: Job | None = JOB):
        return squeue.columns_of(read(list(given), squeue.GRAMMAR, mixed=True)).line(job)

    assert shown("-o", "%i|%T|%.4t|%j %u %C %M %R") == "12_7|FAILED|   F|fit ann 4 1:00:00 h2"
    assert shown("-o", "%F %K", job=None) == "ARRAY_JOB_ID ARRAY_TASK_ID"
    assert shown("-O", "JobID:6,State:.8,UserName") == f"12_7    FAILED{'ann':20}"
    for words_ in (("-o", "%z"), ("-O", "gres")):
        with pytest.raises(SlurmError, match="not supported by lbd"):
            shown(*words_)
    for words_ in (("-o", "%.99999999999999999999i"), ("-o", f"%{'9' * 5000}i"),
                   ("-O", "jobid:99999"), ("-O", "jobid:²")):  # fmt: skip
        with pytest.raises(SlurmError, match=r"--[fF]ormat: .*: not a width$") as caught:
            shown(*words_)
        assert len(str(caught.value)) < 100
    assert squeue.states_of("R,pending", ()) == {"RUNNING", "PENDING"}
    with pytest.raises(SlurmError, match="Invalid job state"):
        squeue.states_of("XX", ())


def test_fields_of_sacct(capsys):
    given = read(["-P", "--format=JobID,State,ExitCode,ElapsedRaw"], sacct.GRAMMAR, mixed=True)
    fields = sacct.fields_of(given.values["format"])
    sacct.put(given, [sacct.FIELDS[name][1](JOB) for name, _ in fields], fields)
    assert capsys.readouterr().out == "12_7|FAILED|0:9|3600\n"
    of_memory = [name for name, _ in sacct.fields_of("AveRSS,MaxRSS,ReqMem")]
    assert [sacct.FIELDS[name][1](JOB) for name in of_memory] == ["", "", ""]
    large = Job({**ROW, "max_rss_bytes": 300 << 20})
    assert [sacct.FIELDS[name][1](large) for name in of_memory] == ["", "307200K", ""]
    with pytest.raises(SlurmError, match="AveDiskRead"):
        sacct.fields_of("JobID,AveDiskRead")
    with pytest.raises(SlurmError, match="--format: State%x: not a width"):
        sacct.fields_of("JobID%-5,State%x")


def test_signals_of_scancel_and_options_of_srun():
    assert [scancel.signal_of(text) for text in ("", "9", "usr1", "SIGINT")] == [0, 9, 10, 2]
    with pytest.raises(SlurmError):
        scancel.signal_of("WHAT")
    given = read(["-n1", "-c", "2", "echo", "-n"], srun.GRAMMAR)
    assert given.rest == ["echo", "-n"]
    for words, hint in (
        (["--mpi=pmix", "x"], r"--mpi pmix is .*LBD_SLURM_IGNORE=mpi$"),
        (["--cpu-bind=cores", "--mpi", "pmi2", "x"], r"--mpi pmi2 is"),  # alone
        (["--exclusive", "x"], r"--exclusive is not supported"),  # of a whole host
    ):
        with pytest.raises(SlurmError, match=hint):
            srun.run(words)


@pytest.mark.parametrize(
    ("command", "name", "program"),
    [
        (["/opt/fit", "7"], "fit", ("/opt/fit",)),
        ([*LAUNCHER, "job.sh", "7"], "job.sh", ("job.sh",)),
        (None, "wrap", ()),
    ],
)
def test_a_job_without_a_name_is_named_after_its_program(command, name, program):
    job = Job(ROW | {"name": "", "command": command})
    assert (job.name, job.program) == (name, program)


def test_no_command_of_another_user_reaches_the_terminal():
    job = Job(ROW | {"name": "", "command": ["/bin/a\x1b]0;b\nc"]})
    assert (job.name, job.program) == ("a?]0;b c", ("/bin/a?]0;b c",))
