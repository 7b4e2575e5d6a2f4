"""64 callers on four real hosts that decide in the same instant, under each of our own rules."""

from collections import Counter

import pytest

from lbd.policy.registry import WEIGH_AGE

pytestmark = pytest.mark.alone

CALLERS = 16  # on each host
SCRIPT = """
for i in $(seq {callers}); do
    (
        : > {ready}/{host}.$i
        while [ ! -e {go} ]; do sleep 0.02; done
        exec lbrun --remote sh -c 'echo $LBD_HOST'
    ) &
done
wait
"""


@pytest.fixture(scope="module")
def idle_lab(make_module_lab):
    """A lab in which any one host has room for all callers."""
    return make_module_lab(4, settings=("lbm.slots=64",))


def switch(lab, name):
    lab.run("h3", "lbctl", "algorithm", name, check=True)
    for host in lab.hosts:
        lab.wait_until(
            lambda host=host: lab.lbctl_json(host, "algorithm")["algorithm"] == name,
            f"{host} follows to {name}",
        )


@pytest.mark.parametrize("name", WEIGH_AGE)
def test_they_do_not_all_pick_one_host(idle_lab, tmp_path, name):
    lab, go = idle_lab, tmp_path / "go"
    switch(lab, name)
    ready = tmp_path / "ready"
    ready.mkdir()
    scripts = {h: SCRIPT.format(callers=CALLERS, host=h, ready=ready, go=go) for h in lab.hosts}
    callers = [lab.popen(h, "sh", "-c", s, stdout=-1, text=True) for h, s in scripts.items()]
    everybody = CALLERS * len(lab.hosts)
    lab.wait_until(lambda: len(list(ready.iterdir())) == everybody, "all callers wait", 30)
    go.touch()
    picks = Counter(" ".join(job.communicate(timeout=120)[0] for job in callers).split())
    assert picks.total() == everybody  # not a command is lost
    assert set(picks) == set(lab.hosts)
    assert max(picks.values()) <= everybody // 2
