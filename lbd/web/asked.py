"""What a page is made of: who asks for which, and the daemons as that viewer may ask them."""

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
    """That page is a user's: nobody is signed in."""


@dataclass(frozen=True, slots=True)
class Asked:
    daemons: Daemons
    viewer: Viewer
    name: str  # of a host or a job, if the page is of one
    query: Mapping[str, str]
    hour: PastLoads  # of all hosts, a few seconds old
    sparks: Mapping[str, Spark]  # of the same
    outputs: Outputs
    unix_now_s: float

    def word(self, key: str) -> str:
        """Of the address; no longer than anybody types."""
        return self.query.get(key, "").strip()[:QUERY_CHARS_MAX]

    @property
    def sees_host(self) -> bool:
        """Whether all that this process can look into is the viewer's, too."""
        return self.viewer.uid == os.geteuid()

    def need_viewer(self) -> None:
        if not self.viewer.signed_in:
            raise SignInFirst(
                "This page needs a sign-in. Run `lbctl web login` on this machine for a link that "
                "signs you in."
            )


Make = Callable[[Asked], Page]  # in a thread. Raises LbdError
