"""Acts on jobs by their ids: those of the queue and those of plain `lbrun`."""

from lbd.console import plain_commands
from lbd.console.daemons import Daemons
from lbd.console.jobs import ANSWER_S
from lbd.console.reply import Json, table, text, texts
from lbd.dispatch.core.job_selection import read_selectors
from lbd.errors import LbdError


def check_ids(ids: list[str], verb: str = "jobs") -> None:
    """`verb`: the one of `lbctl` that takes names instead. Raises ConfigError."""
    read_selectors(ids, "", 1, verb)


def act(
    daemons: Daemons, ids: list[str], verb: str, order: Json | None = None, signal: int = 0
) -> list[Json]:
    """Returns each job's result. `order` holds further fields of the request. Raises LbdError if
    nothing was tried."""
    queued, named = plain_commands.split(ids)
    if queued:
        check_ids(queued, "kill" if verb == "kill" else "jobs")
    done: list[Json] = []
    for name in named:
        if verb == "kill":
            done.append(plain_commands.kill(daemons, name, signal))
        else:
            done.append(plain_commands.only_queued(name, verb))
    if queued:
        question: Json = {"op": "queue.act", "verb": verb, "ids": queued, "signal": signal}
        question |= order or {}
        try:
            reply = daemons.lbm(question, ANSWER_S)
        except LbdError as problem:
            if not named:
                raise
            return [*done, plain_commands.acted(None, str(problem))]
        found, later = reply.get("done"), table(reply, "still_open")
        done += [
            plain_commands.acted(str(one), still_open=text(later, str(one)))
            for one in (found if isinstance(found, list) else [])
        ]
        done += [plain_commands.acted(None, error) for error in texts(reply, "errors")]
    return done
