"""Jobs of a lab's queue: submitted, and what `lbctl` tells of them."""


def submit(lab, *words, host="h2", **options):
    """The id that `lbrun -d` prints."""
    result = lab.run(host, "lbrun", "-d", *words, check=True, **options)
    assert result.stderr == ""
    return result.stdout.strip()


def job(lab, name, host="h1"):
    return lab.lbctl_json(host, "job", name)
