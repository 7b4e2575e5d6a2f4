"""The limits on the lines of the log."""

from lbd.lim.core.events import Log
from lbd.lim.log_lines import LINES_AT_ONCE, LINES_PER_S, Lines


def test_who_goes_on_is_counted_too(caplog):
    caplog.set_level("INFO")
    lines = Lines()
    for number in range(150):
        lines.say(Log(f"host h2 is here {number}", peer="h2"), 1.0)
    caplog.clear()
    lines.say(Log("host h2 is here", peer="h2"), 1.0 + 1 / LINES_PER_S)
    assert caplog.messages == ["50 more lines about host h2 were left out", "host h2 is here"]


def test_no_host_uses_up_the_lines_about_another(caplog):
    caplog.set_level("INFO")
    lines = Lines()
    for number in range(150):
        lines.say(Log(f"host h3 is here {number}", peer="h3"), 1.0, "h2")
    caplog.clear()
    lines.say(Log("host h3 is up again", peer="h3"), 1.0)
    lines.say(Log("host h3 was stopped", peer="h3"), 1.0, "h3")
    assert caplog.messages == ["host h3 is up again", "host h3 was stopped"]


def test_many_lines_leave_room_for_warnings(caplog):
    caplog.set_level("INFO")
    lines = Lines()
    for number in range(150):
        lines.say(Log(f"host h2 is here {number}", peer="h2"), 1.0)
    caplog.clear()
    for number in range(102):
        lines.say(Log(f"host h2 is down {number}", warning=True, peer="h2"), 1.0)
    assert caplog.messages == [f"host h2 is down {n}" for n in range(int(LINES_AT_ONCE))]
    caplog.clear()
    lines.say_left_out(1.0 + 1 / LINES_PER_S)
    assert caplog.messages == [
        "50 more lines about host h2 were left out",
        "2 more warnings about host h2 were left out",
    ]
