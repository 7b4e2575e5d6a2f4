"""A compromised host with a valid certificate poses as an LBM and lies about jobs."""

from functools import partial

from cluster import FAST, Lab
from trust import authority_on, files_of, in_place_of_lbm

from lbd.net.gen import lbm_pb2 as pb

LAB = partial(Lab.up, 2, "none", "--tls", "--mode", "fcfs", settings=FAST)


def test_nobody_ends_a_job_that_another_host_has_given_a_name(lab):
    """`lbctl kill --name` once ended any job that a host listed under that name: `@me`, `1-99`."""
    job = lab.run("h1", "lbrun", "-d", "--name", "mine", "sleep", "300", check=True).stdout.strip()
    lab.wait_until(lambda: lab.lbctl_json("h1", "job", job)["state"] == "running", "it runs")
    user = lab.lbctl_json("h1", "job", job)["user"]
    asked = []

    def answer(request, _context):
        asked.append(pb.JobsRequest.FromString(request))
        names = "@me", "last", job, f"1-{job}", "h1-1"
        return pb.JobsReply(
            jobs=[
                pb.JobRecord(id=one, origin="h2", user=user, name="theirs", state="running")
                for one in names
            ]
        ).SerializeToString()

    own, root = files_of(lab, "h2").read_credentials(), authority_on(lab).certificate
    lab.kill("h2", "lbm")
    with in_place_of_lbm(lab, "h2", own, root, None, Jobs=answer):
        lab.wait_until(lambda: lab.states("h1").get("h2") == "up", "h2 is heard")
        listed = lab.lbctl_json("h1", "jobs")
        assert [one["id"] for one in listed] == [job]
        said = lab.run("h1", "lbctl", "kill", "--name", "theirs", "--yes")
    assert asked
    assert "none of the jobs that you may end matches" in said.stderr, said
    assert lab.lbctl_json("h1", "job", job)["state"] == "running"
    lab.run("h1", "lbctl", "kill", "--name", "mine", "--yes", check=True)
    lab.wait_until(lambda: lab.lbctl_json("h1", "job", job)["state"] == "cancelled", "it ends")
