"""Where a command would go now and why: the ranked hosts, as in `lbctl explain`."""

from lbd.console.decision import candidate_row, place_request, why_of
from lbd.console.output import cell
from lbd.console.reply import Json, tables, text
from lbd.web.asked import Asked
from lbd.web.view import DIM, GOOD, Facts, Field, Form, Item, Page, Part, Table, right

HEAD = ("Host", "Rank", "Load with this command", "Age", "Willing")
WHY_WORDS = ("host", "leave", "needs")
VERDICTS = {"here": "runs here", "there": "goes there", "wait": "waits for room; best is"}


def make_why(asked: Asked) -> Page:
    """Asks only the LIM: it knows loads, not users' files, and tells everybody the same."""
    host, needs = asked.word("host"), asked.word("needs")
    request = place_request(host or None, [], asked.word("leave") == "yes", False, needs)
    reply = asked.daemons.lim(request)
    form = Form("ask", "Command", "/why", [
        Field("host", "Requested host (-H)", host),
        Field("leave", "Must leave this host", asked.word("leave"), ("", "yes"), "no"),
    ], "Ask")  # fmt: skip
    return Page("Why there", [form, *why_parts(reply, request)], reply, "/why")


def why_parts(reply: Json, request: Json) -> list[Part]:
    verdict, chosen = text(reply, "verdict"), text(reply, "host")
    facts = [
        ("a command from this host", Item(f"{VERDICTS.get(verdict, verdict)}: {chosen}", GOOD)),
        ("because", Item(why_of(reply, request))),
        ("reason, in a word", Item(text(reply, "reason"))),
        ("algorithm", Item(text(reply, "algorithm"), href="/settings")),
    ]
    rows = [candidate_items(rank, one, chosen) for rank, one in
            enumerate(tables(reply, "candidates"), 1)]  # fmt: skip
    return [
        Facts("decision", "The decision now", facts),
        Table("candidates", "Ranked hosts", HEAD, rows, "no hosts were compared"),
    ]


def candidate_items(rank: int, one: Json, chosen: str) -> tuple[Item, ...]:
    place, name, load, age, willing = (cell(x).text for x in candidate_row(rank, one, chosen))
    is_willing = one.get("willing") is True
    return (Item(name), Item(place), right(load), right(age),
            Item(willing, GOOD if is_willing else DIM))  # fmt: skip
