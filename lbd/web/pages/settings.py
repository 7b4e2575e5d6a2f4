"""The algorithm in force and every parameter that can be changed at run time."""

from lbd.console.parameters import as_json, fetch_all, shown
from lbd.console.reply import Json, text
from lbd.web.asked import Asked
from lbd.web.view import Facts, Item, Page, Part, Table, right


def make_settings(asked: Asked) -> Page:
    algorithm = asked.daemons.lim({"op": "algorithm"})
    return settings_page(algorithm, fetch_all(asked.daemons))


def settings_page(algorithm: Json, params: list[Json]) -> Page:
    facts = [("in force", Item(text(algorithm, "algorithm")))]
    if saved := text(algorithm, "saved"):
        facts.append(("saved", Item(saved)))
    rows = [
        (Item(text(one, "name")), right(shown(one, "value")), right(shown(one, "saved")))
        for one in params
    ]
    data: Json = {"algorithm": text(algorithm, "algorithm"), **as_json(params)}
    note = "Changed by lbctl algorithm and lbctl param, on all hosts at once."
    parts: list[Part] = [
        Facts("algorithm", "Algorithm", facts),
        Table("params", "Parameters", ("Parameter", "Value", "Saved"), rows, note=note),
    ]
    return Page("Settings", parts, data, "/settings")
