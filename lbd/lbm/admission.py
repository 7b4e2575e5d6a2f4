"""May this foreign command run here, and as whom. Pure: the facts are arguments."""

from dataclasses import dataclass

ROOT_UID = 0


@dataclass(frozen=True, slots=True)
class LocalUser:
    """An entry of this host's user database."""

    name: str
    uid: int
    gid: int = 0
    groups: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Admit:
    run_as: LocalUser | None  # None = the daemon's own user
    note: str = ""  # for the caller, with -v


@dataclass(frozen=True, slots=True)
class Refuse:
    reason: str
    try_another: bool = True


def admit(
    user: str, uid: int, local: LocalUser | None, own_uid: int, allow_root: bool, drained: bool
) -> Admit | Refuse:
    """`user`, `uid`: who asks, as the origin's kernel says; `local`: that name on this host."""
    if drained:
        return Refuse("drained")
    is_root = uid == ROOT_UID or user == "root" or (local is not None and local.uid == ROOT_UID)
    if is_root and not allow_root:
        return Refuse("commands of root are not allowed here (users.allow_root)")
    if own_uid != ROOT_UID:
        if local is not None and local.uid == own_uid:
            return Admit(None)
        return Admit(None, f"runs as uid {own_uid}, the daemon's own user: it is not root")
    if local is None:
        return Refuse(f"no user {user!r} here")
    return Admit(local)
