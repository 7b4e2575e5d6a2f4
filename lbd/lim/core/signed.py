"""The policy: the settings that administrators make, signed by the host where they were made.

LIMs pass the settings on, so the certificate of the sender does not prove who made them: one
compromised host could write any, in any name. So the algorithm, its parameters and what is saved
carry a *seal*: the author's certificate and its signature of them, of the cluster's name and of a
counter. This file defines what is signed and which of two policies applies; the keys are in
`trust.seals`, and `lim.policy_guard` checks each seal before its settings get here.

Rule 1: of two policies the one with the higher (counter, author) applies, whatever else came with
it. So an older one that is sent again changes nothing. An author that signs two with one counter
cannot keep hosts apart with them: the digest decides. It does not affect the drains of a host that
has not heard of the newer policy: drains go by the version of the settings, as everything does in a
cluster without certificates.

Rule 2: an unsigned policy applies only until this host knows a signed one, and where only some
hosts may make policies (`admin.settings_hosts`) not even then.

Rule 3: what is not saved ends once all LIMs were stopped. The seal has a digest of that part, so it
is valid without it as well; but the whole one is the newer of the two.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace

from lbd.errors import ConfigError, PeerError
from lbd.lim.core import messages as m
from lbd.lim.core.events import ChangeSettings
from lbd.lim.core.settings import InForce, resumed
from lbd.model import HostId

MARK_DIGITS = 32  # of the content's digest, in hexadecimal
WHOLE = " whole"


def trial_digest(settings: m.Settings) -> bytes:
    """Returns the digest of what ends with all LIMs, unless it is saved as well."""
    params = {name: float(value) for name, value in settings.params.items()}
    return hashlib.sha256(packed([settings.algorithm, params, settings.words])).digest()


def signed_text(cluster: str, seal: m.Seal, settings: m.Settings) -> bytes:
    """What the author's key signs."""
    return packed([cluster, seal.counter, seal.author, seal.trial.hex(), settings.saved])


def packed(value: object) -> bytes:
    """Encodes the same value to the same bytes on every host."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def next_counter(settings: m.Settings, unix_s: float) -> int:
    """Returns a counter based on the clock, so that it is above those of a policy that was lost
    with all hosts' disks."""
    counter = max(settings.seal.counter + 1, int(unix_s))
    if counter > m.COUNTER_MAX:
        raise ConfigError(
            f"the version number of {settings.seal.author}'s settings is at its maximum; remove "
            "settings.json on all hosts while their LIMs are stopped"
        )
    return counter


def is_whole(settings: m.Settings) -> bool:
    return trial_digest(settings) == settings.seal.trial


def policy_version(settings: m.Settings) -> tuple[int, str]:
    """Returns the counter and a mark of author and content; (0, "") while the policy is
    unsigned."""
    seal = settings.seal
    if not seal.counter:
        return (0, "")
    content = hashlib.sha256(seal.trial + packed(settings.saved)).hexdigest()[:MARK_DIGITS]
    return (seal.counter, f"{seal.author} {content}{WHOLE if is_whole(settings) else ''}")


def contradicts(ours: m.Settings, theirs: m.Settings) -> bool:
    """Whether one author has given two contents one counter, which no honest host does."""
    one, other = ours.seal, theirs.seal
    return (
        (one.counter, one.author) == (other.counter, other.author)
        and one.counter > 0
        and (one.trial, ours.saved) != (other.trial, theirs.saved)
    )


def with_policy(settings: m.Settings, policy: m.Settings) -> m.Settings:
    """Returns the same settings with another policy."""
    return replace(
        settings, algorithm=policy.algorithm, params=policy.params, words=policy.words,
        saved=policy.saved, seal=policy.seal,
    )  # fmt: skip


def is_same_policy(one: m.Settings, other: m.Settings) -> bool:
    return with_policy(one, other) == one


def is_refused_unsigned(ours: m.Settings, theirs: m.Settings, *, is_strict: bool) -> bool:
    """Whether their policy is rejected because it is unsigned."""
    return not theirs.seal.counter and bool(is_strict or ours.seal.counter)


def described(settings: m.Settings) -> str:
    """For a log. They have no author until this host has heard of a change."""
    author = f" of {settings.author}" if settings.author else ""
    signed = f", signed by {settings.seal.author}" if settings.seal.counter else ""
    return f"settings {settings.counter}{author}{signed}"


def vetted(
    ours: m.Settings,
    theirs: m.Settings,
    *,
    is_strict: bool,
    check: Callable[[m.Settings], None],
) -> tuple[m.Settings, str]:
    """Returns their settings as they may be merged, and why their policy is rejected; "" if it is
    not. `check` raises PeerError for an invalid seal; it is called only for a newer one."""
    if is_refused_unsigned(ours, theirs, is_strict=is_strict):
        is_news = theirs.version > ours.version and not is_same_policy(theirs, ours)
        return theirs, "they are not signed" if is_news else ""
    if policy_version(theirs) <= policy_version(ours):
        return theirs, ""  # it is older and changes nothing
    try:
        check(theirs)
    except PeerError as problem:
        return with_policy(theirs, ours), str(problem)
    return theirs, ""


def sealed(
    change: ChangeSettings,
    settings: m.Settings,
    author: HostId,
    cluster: str,
    unix_s: float,
    sign: Callable[[bytes], tuple[bytes, bytes]],
) -> ChangeSettings:
    """Returns the change with the author's seal of the resulting policy. `sign` returns the
    author's certificate and its signature of the given bytes."""
    blank = m.Seal(next_counter(settings, unix_s), author)
    made = replace(change, seal=blank).applied_to(settings, author)
    seal = replace(blank, trial=trial_digest(made))
    certificate, signature = sign(signed_text(cluster, seal, made))
    return replace(change, seal=replace(seal, certificate=certificate, signature=signature))


def merged(
    base: InForce, ours: m.Settings, theirs: m.Settings, *, is_strict: bool = False
) -> m.Settings:
    """Returns what applies of both. Their seal is missing, or was checked. `is_strict`: not every
    host may make a policy."""
    is_newer = theirs.version > ours.version
    policy = ours
    if policy_version(theirs) > policy_version(ours):
        policy = theirs if is_whole(theirs) else saved_part(base, theirs)
    elif not theirs.seal.counter and is_newer:
        is_refused = is_refused_unsigned(ours, theirs, is_strict=is_strict)
        policy = ours if is_refused else theirs
    return with_policy(theirs if is_newer else ours, policy)


def lacking(
    ours: m.Settings, version: tuple[int, str], policy: tuple[int, str]
) -> tuple[bool, bool]:
    """Returns whether a host with those versions lacks something of ours, and whether we lack
    something of its."""
    # A host that has these settings without a signed policy has refused ours.
    they_lack = version < ours.version or (0, "") < policy < policy_version(ours)
    return they_lack, version > ours.version or policy > policy_version(ours)


def has_policy(ack: m.Ack, version: tuple[int, str], policy: tuple[int, str]) -> bool:
    """Whether a host that answers so has that policy, which came with settings of that version, or
    a newer one."""
    if policy[0]:
        return ack.policy_version >= policy
    return ack.settings_version >= version


def saved_part(base: InForce, settings: m.Settings) -> m.Settings:
    """Returns the settings without the unsigned part: what is not the same as the saved values."""
    bare = replace(settings, algorithm="", params={}, words={})
    return resumed(base, bare)[0]
