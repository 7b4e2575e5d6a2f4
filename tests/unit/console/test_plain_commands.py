"""Orders for plain commands of many hosts, some of which may not answer."""

from lbd.console import plain_commands
from lbd.errors import Unavailable
from lbd.local.json_socket import Refusal


class Daemons:
    """`silent`: hosts that do not answer."""

    def __init__(self, *silent):
        self.silent, self.asked = silent, []

    def lbm(self, question, _timeout_s):
        name = question["id"]
        self.asked.append(name)
        if name.startswith(self.silent):
            raise Unavailable("h2 does not answer")
        if name == "h3-2":
            raise Refusal("h3-2 has ended", "missing")
        return {}


def test_a_silent_host_with_very_many_commands_keeps_no_others_from_their_end():
    """Each took three seconds, and a host may list a hundred thousand."""
    names = [f"h2-{number}" for number in range(1000)] + ["h3-1", "h3-2", "h3-3"]
    daemons = Daemons("h2-")
    results = {one["id"]: one for one in plain_commands.kill(daemons, names, 15)}
    assert daemons.asked == ["h2-0", "h3-1", "h2-1", "h3-2", "h3-3"]
    assert set(results) == set(names)
    assert [name for name, one in results.items() if one["ok"]] == ["h3-1", "h3-3"]
    assert results["h2-1"]["error"] == "h2 does not answer"
    assert results["h2-999"]["error"] == "h2-999 was not signalled: h2 does not answer"
    assert results["h3-2"]["error"] == "h3-2 has ended"
