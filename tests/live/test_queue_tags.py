"""TAGS on real hosts: killed at the cutoff, started from scratch in the next tier."""

from functools import partial

from tests.live.cluster import FAST, Lab, wait_until

BURN = (
    "import sys, time\n"
    "while time.process_time() < float(sys.argv[1]): pass\n"
    "print('burnt', flush=True)"
)
TREE = 'echo "tier $LBD_TIER"; python3 -c "$1" "$2" & wait $!; cat'


SETTINGS = (*FAST, "dispatch.lease_s=20", "tags.cutoffs_s=[0.4]", "lbm.slots=2")
LAB = partial(Lab.up, 2, "none", "--mode", "tags", settings=SETTINGS)


def last(lab):
    return lab.lbctl_json("h1", "job", "last")


def test_a_large_job_starts_again_with_its_input_and_without_its_output(lab):
    result = lab.run("h2", "lbrun", "-q", "sh", "-c", TREE, "-", BURN, "1.0", input="in\n")
    assert (result.stdout, result.returncode) == ("tier 2\nburnt\nin\n", 0)
    one, two = last(lab)["attempts"]
    assert (one["state"], one["tier"], two["state"], two["tier"]) == ("cut", 1, "done", 2)
    assert one["host"] != two["host"]
    assert one["cutoff_s"] == 0.4
    assert 0.4 <= one["cpu_s"] < 1.0, "not much later, measured over the whole tree"
    assert lab.run("h1", "lbctl", "logs", "--attempt", "1", "last").stdout == "tier 1\n"
    assert lab.run("h1", "lbctl", "logs", "last").stdout == result.stdout


STRETCHES = """
state="$LBD_CHECKPOINT/state"
echo "attempt $LBD_ATTEMPT in tier $LBD_TIER, cut at ${LBD_CUTOFF_S:-never}, after $(cat "$state")"
[ "$LBD_ATTEMPT" = 3 ] && exit 0
echo "$LBD_ATTEMPT" >"$state"
exit 85
"""


def test_a_job_that_stops_at_checkpoints_continues_from_there(lab, tmp_path):
    (tmp_path / "state").write_text("nothing")
    words = ("--checkpoint", ".", "sh", "-c", STRETCHES)
    result = lab.run("h2", "lbrun", "-q", *words, cwd=tmp_path)
    assert (result.returncode, result.stdout.splitlines()) == (
        0,
        [
            "attempt 1 in tier 1, cut at 0.4, after nothing",
            "attempt 2 in tier 2, cut at never, after 1",
            "attempt 3 in tier 2, cut at never, after 2",
        ],
    )
    states = [(one["state"], one["tier"]) for one in last(lab)["attempts"]]
    assert states == [("checkpoint", 1), ("checkpoint", 2), ("done", 2)]
    logs = lab.run("h1", "lbctl", "logs", "last")
    assert (logs.stdout, logs.stderr) == (result.stdout, "")
    assert lab.run("h1", "lbctl", "logs", "--attempt", "2", "last").stdout.count("\n") == 1
    own = last(lab)["id"]

    def history():
        found = lab.lbctl_json("h1", "history")
        return [one["state"] for one in found if one["id"] == own]

    wait_until(lambda: len(history()) == 3, "all attempts are accounted", 10, history)
    assert history() == ["checkpoint", "checkpoint", "done"], "to stop there is not to fail"


def test_its_output_file_continues_too(lab, tmp_path):
    (tmp_path / "state").write_text("nothing")
    words = ("-o", "out", "--checkpoint", tmp_path, "sh", "-c", STRETCHES)
    number = lab.run("h2", "lbrun", "-d", *words, cwd=tmp_path).stdout.strip()
    lab.run("h1", "lbctl", "wait", number, check=True)
    assert (tmp_path / "out").read_text().count("attempt") == 3


def test_without_a_checkpoint_85_is_a_status_like_any_other(lab):
    assert lab.run("h2", "lbrun", "-q", "sh", "-c", "exit 85").returncode == 85
    assert len(last(lab)["attempts"]) == 1
    result = lab.run("h2", "lbrun", "-q", "--checkpoint", "/nowhere", "true")
    assert (result.returncode, result.stderr) == (
        125,
        "lbrun: --checkpoint /nowhere: no such directory; create it first, where all hosts "
        "see it\n",
    )


def test_given_cutoffs_are_shown_with_their_tiers_hosts(lab):
    told = lab.lbctl_json("h2", "tags", "show")
    assert (told["source"], told["cutoffs"], told["fit"]) == ("given", [0.4], None)
    assert [(tier["cutoff_s"], tier["hosts"]) for tier in told["tiers"]] == [
        (0.4, ["h1"]),
        (None, ["h2"]),
    ]
    assert "given by tags.cutoffs_s" in lab.run("h1", "lbctl", "tags", "show").stdout
