"""A daemon that comes back knows again what runs."""

LAB_HOSTS = 2


def test_a_lim_started_anew_counts_the_jobs_that_run(lab):
    burner = lab.popen("h1", "lbrun", "-H", "h2", "sh", "-c", "while :; do :; done")
    try:
        busy = lambda: index_of(lab, "h2") > 0.3  # noqa: E731
        lab.wait_until(busy, "the job is part of h2's load", 20)
        lab.kill("h2", "lim")
        lab.start("h2", "lim")
        lab.wait_until(busy, "and after its LIM has restarted, too", 20)
    finally:
        burner.terminate()
        burner.wait()


def index_of(lab, host):
    rows = lab.ask(host, "lim", "status")["hosts"]
    return next(row["index"] for row in rows if row["name"] == host)
