"""Jobs of a lab's queue: submitted, and what `lbctl` tells of them."""


def submit(lab, *words, host="h2", **options):
    """The id that `lbrun -d` prints."""
    result = lab.run(host, "lbrun", "-d", *words, check=True, **options)
    assert result.stderr == ""
    return result.stdout.strip()


def job(lab, name, host="h1"):
    return lab.lbctl_json(host, "job", name)


def running_on(lab, name):
    """The host where it runs, or "". Asks without starting a program, which on a busy machine takes
    longer than some jobs."""
    (told,) = lab.ask("h1", "lbm", "queue.jobs", ids=[name])["jobs"]
    return told["host"] if told["state"] == "running" else ""


def until_running(lab, *names):
    for name in names:
        lab.wait_until(lambda name=name: job(lab, name)["state"] == "running", f"{name} runs")
