"""One question to every host of the cluster about its jobs that have ended."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from lbd.cli.daemons import Daemons
from lbd.cli.program import complain
from lbd.cli.reply import Json, tables, text
from lbd.errors import LbdError, Unavailable
from lbd.rpc.local import Refusal

AT_ONCE = 16
ANSWER_S = 15.0

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Gathered(Generic[Found]):
    answers: dict[str, Found]  # by host
    missing: dict[str, str]  # host -> why


def gather(daemons: Daemons, ask: Callable[[str], Found]) -> Gathered[Found]:
    """Raises LbdError if not a single host answers, or we may not ask."""
    hosts = [text(row, "name") for row in tables(daemons.lim({"op": "status"}), "hosts")]

    def tried(host: str) -> Found | LbdError:
        try:
            return ask(host)
        except LbdError as problem:
            return problem

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = dict(zip(hosts, pool.map(tried, hosts), strict=True))
    for answer in found.values():
        if isinstance(answer, Refusal) and answer.code == "denied":
            raise answer
    missing = {host: str(why) for host, why in found.items() if isinstance(why, LbdError)}
    answers = {host: one for host, one in found.items() if not isinstance(one, LbdError)}
    if not answers:
        raise Unavailable("; ".join(dict.fromkeys(missing.values())))
    return Gathered(answers, missing)


def complain_of(missing: dict[str, str]) -> None:
    if missing:
        told = ", ".join(f"{host} ({why})" for host, why in missing.items())
        complain("lbctl", f"without the jobs of these hosts, which did not answer: {told}")


def ask_host(daemons: Daemons, op: str, host: str, **more: object) -> Json:
    return daemons.lbm({"op": op, "of": host, **more}, ANSWER_S)
