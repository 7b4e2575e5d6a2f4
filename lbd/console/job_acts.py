"""Acts on jobs by their ids: those of the queue and those of plain `lbrun`."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from lbd.console import plain_commands
from lbd.console.daemons import Daemons
from lbd.console.jobs import ANSWER_S
from lbd.console.reply import Json, table, tables, text, texts
from lbd.dispatch.core.job_selection import HOW, read_selectors
from lbd.errors import LbdError

ANY_ID = HOW.replace("last or @me", "last, @me or h1-26")
KILLED_ID = ANY_ID.replace("lbctl jobs", "lbctl kill")  # it takes names itself


def check_ids(ids: list[str], how: str = ANY_ID) -> None:
    """`how`: what an id looks like, for the message. Raises ConfigError."""
    read_selectors(ids, "", 1, how)


@dataclass(frozen=True, slots=True)
class Acted:
    """What came of an order: each job's result, and the errors in few lines."""

    results: list[Json] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def add(self, one: Json) -> None:
        self.results.append(one)
        if not one.get("ok"):
            self.errors.append(text(one, "error"))


def act(
    daemons: Daemons, ids: list[str], verb: str, order: Json | None = None, signal: int = 0
) -> Acted:
    """`order` holds further fields of the request. Raises LbdError if nothing was tried."""
    queued, named = plain_commands.split(ids)
    if queued:
        check_ids(queued, KILLED_ID if verb == "kill" else HOW)
    done = Acted()
    if queued:
        question: Json = {"op": "queue.act", "verb": verb, "ids": queued, "signal": signal}
        question |= order or {}
        try:
            reply = daemons.lbm(question, ANSWER_S)
        except LbdError as problem:
            if not named:
                raise
            done.errors.append(str(problem))
            done.results.extend(plain_commands.acted(one, str(problem)) for one in queued)
        else:
            done.results.extend(results_in(reply))
            done.errors.extend(texts(reply, "errors"))
    if verb == "kill":  # last: each may have to wait for its host
        for one in plain_commands.kill(daemons, named, signal):
            done.add(one)
        return done
    for name in named:
        done.add(plain_commands.only_queued(name, verb))
    return done


def results_in(reply: Json) -> Iterator[Json]:
    found, later = reply.get("done"), table(reply, "still_open")
    not_held = set(texts(reply, "not_held"))
    for one in found if isinstance(found, list) else []:
        done = plain_commands.acted(str(one), still_open=text(later, str(one)))
        yield done | {"not_held": True} if str(one) in not_held else done
    for group in tables(reply, "failed"):
        ids, error = texts(group, "ids"), text(group, "error")
        for name in ids:
            yield plain_commands.acted(name, error.replace(f"job {ids[0]} ", f"job {name} "))
