"""Rejects policies from other hosts unless an authorised author has signed them, and signs our own.

`core.signed` trusts whatever has passed here.
"""

import logging
import time

from lbd.config.access import AdminConfig
from lbd.errors import ConfigError, PeerError
from lbd.lim.core import messages as m
from lbd.lim.core.events import ChangeSettings, Log
from lbd.lim.core.signed import contradicts, policy_version, sealed, signed_text, vetted
from lbd.lim.core.state import LimState
from lbd.lim.log_lines import LINES
from lbd.model import HostId, HostState
from lbd.net.tls import Tls
from lbd.text.one_line import one_line
from lbd.trust.der import dns_names
from lbd.trust.names import identity_of

log = logging.getLogger("lbd.settings")

REVOKED = "{}, which signed them, is revoked"
OLD = "they are signed with an old certificate of {}"  # the host itself has a new certificate
DOWN = HostState.DOWN
SAID_AGAIN_S = 60.0  # between two complaints about one host
SAYERS_MAX = 1024
FIX = (
    "on a host that may, set one of them again (`lbctl config set … --cluster`), which signs all "
    "of them"
)


class PolicyGuard:
    def __init__(self, tls: Tls, admin: AdminConfig, state: LimState) -> None:
        self._tls, self._admin, self._state = tls, admin, state
        self._said_s: dict[str, float] = {}
        self._refused_author = ""  # a revoked host that signed a policy
        tls.when_revoked(self._revoked)
        ours = state.settings
        if state.identity.is_strict and ours.saved and not ours.seal.counter:
            log.warning("the settings saved for all hosts are not signed, so hosts do not accept "
                        "them from each other (admin.settings_hosts); %s", FIX)  # fmt: skip

    # -- incoming --------------------------------------------------------------------------------

    def vet(self, message: m.Message) -> m.Message:
        """Replaces a rejected policy in the message by our own."""
        return m.with_settings(message, lambda theirs: self._vetted(theirs, message.sender))

    def _vetted(self, theirs: m.Settings, sender: str) -> m.Settings:
        is_strict, ours = self._state.identity.is_strict, self._state.settings
        found, why = vetted(ours, theirs, is_strict=is_strict, check=self._check)
        if why:
            self._say(sender, why)
        elif policy_version(theirs) > policy_version(ours) and contradicts(ours, theirs):
            author, counter = theirs.seal.author, theirs.seal.counter
            text = (f"{author} has signed two different settings with one number, {counter}, as if "
                    "to keep hosts apart: has it been taken over? (lbctl revoke)")  # fmt: skip
            # Limited by author: it can sign any number of them, and any host can pass them on.
            LINES.say(Log(text, warning=True, peer=author), time.monotonic(), author)
        return found

    def _check(self, settings: m.Settings) -> None:
        """Raises PeerError."""
        from lbd.trust.seals import signer_of  # ten megabytes that not every LIM needs

        seal = settings.seal
        if not self._admin.may_set(seal.author):
            raise PeerError(f"{seal.author} is not in admin.settings_hosts")
        if seal.counter > m.counter_max(time.time()):
            raise PeerError(f"their number {seal.counter} is too high by this host's clock")
        text = signed_text(self._state.identity.cluster, seal, settings)
        root = self._tls.files.read_authority()
        signer = signer_of(root, seal.certificate, seal.signature, text)
        if signer.host != seal.author:
            raise PeerError(f"{signer.host} signed them in the name of {seal.author}")
        if self._tls.is_revoked(signer):
            self._refused_author = seal.author
            raise PeerError(REVOKED.format(seal.author))

    def doubt(self) -> str:
        """Returns why joining hosts reject the current settings, or why this host rejects them; ""
        if neither."""
        if self._rejects:
            return self._why_revoked(self._refused_author)
        seal = self._state.settings.seal
        try:
            signer = identity_of(dns_names(seal.certificate)) if seal.counter else None
        except ValueError:
            return ""
        if signer is None or not self._tls.is_revoked(signer):
            return ""
        return self._why_revoked(seal.author)

    @property
    def _rejects(self) -> bool:
        return bool(self._refused_author) and not self._state.settings.seal.counter

    def _why_revoked(self, author: str) -> str:
        return (OLD if self._is_member(HostId(author)) else REVOKED).format(author)

    def _is_member(self, host: HostId) -> bool:
        """Whether the host has a valid certificate, as far as can be seen from here."""
        if host == self._state.me:
            return not self._tls.is_revoked(self._tls.identity)
        entry = self._state.table.entries.get(host)
        if entry is None or self._state.table.state(host, time.monotonic())[0] is DOWN:
            return False
        return not self._tls.is_out(host, max(entry.heard_at_s, entry.sampled_at_s))

    def _say(self, sender: str, why: str) -> None:
        """Logs now and then only: a host may send as much as it likes."""
        now_s = time.monotonic()
        if now_s - self._said_s.get(sender, -SAID_AGAIN_S) < SAID_AGAIN_S:
            return
        if len(self._said_s) >= SAYERS_MAX:
            self._said_s.clear()
        self._said_s[sender] = now_s
        log.warning("rejected settings from %s: %s", sender, one_line(why),
                    extra={"peer": sender})  # fmt: skip

    # -- outgoing --------------------------------------------------------------------------------

    def sign(self, change: ChangeSettings) -> ChangeSettings:
        """Returns the change, signed if it is one of the policy. Raises ConfigError if this host
        may not make it."""
        return self._signed(change) if change.is_of_policy else change

    def _signed(self, change: ChangeSettings) -> ChangeSettings:
        from lbd.trust.seals import sign

        me, settings = self._state.me, self._state.settings
        if not self._admin.may_set(me):
            raise ConfigError(f"{me} may not change settings for all hosts; only "
                              f"{', '.join(self._admin.settings_hosts)} may "
                              "(admin.settings_hosts)")  # fmt: skip
        if self._rejects:
            why = self._why_revoked(self._refused_author)
            raise ConfigError(f"{me} rejects the settings for all hosts, so it may not change "
                              f"them: {why}; on another host, set one of them again (`lbctl config "
                              "set … --cluster`), which signs all of them")  # fmt: skip
        cluster = self._state.identity.cluster
        return sealed(change, settings, me, cluster, time.time(),
                      lambda text: sign(self._tls.credentials, text))  # fmt: skip

    def _revoked(self, hosts: set[str]) -> None:
        if (author := self._state.settings.seal.author) in hosts:
            log.warning("the cluster's settings are signed by %s, which is now revoked: they stay "
                        "in force, but hosts that join reject them; %s", author, FIX)  # fmt: skip
