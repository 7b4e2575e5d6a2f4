"""What a page is made from: the viewer, the request, and the daemons as that viewer asks them."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lbd.console.daemons import Daemons
from lbd.console.past_loads import PastLoads
from lbd.errors import LbdError
from lbd.web.charts import Spark
from lbd.web.outputs import Outputs
from lbd.web.view import Page, Viewer

QUERY_CHARS_MAX = 500


class SignInFirst(LbdError):
    """The page needs a signed-in user."""


@dataclass(frozen=True, slots=True)
class Asked:
    daemons: Daemons
    viewer: Viewer
    name: str  # host or job that the page is about, if any
    query: Mapping[str, str]
    hour: PastLoads  # of all hosts, a few seconds old
    sparks: Mapping[str, Spark]  # drawn from `hour`
    outputs: Outputs
    unix_now_s: float
    as_json: bool = False  # only the page's data are wanted

    def word(self, key: str) -> str:
        """Returns a parameter of the address, cut to `QUERY_CHARS_MAX`."""
        return self.query.get(key, "").strip()[:QUERY_CHARS_MAX]

    @property
    def sees_host(self) -> bool:
        """Returns whether this process runs as the viewer, who may see all that it can read."""
        return self.viewer.uid == os.geteuid()

    def need_viewer(self) -> None:
        if not self.viewer.signed_in:
            raise SignInFirst(
                "This page needs a sign-in. Run `lbctl web login` on this machine for a link that "
                "signs you in."
            )


Make = Callable[[Asked], Page]  # runs in a thread; raises LbdError
