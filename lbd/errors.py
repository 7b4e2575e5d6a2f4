"""The error tree, split by what the caller does next.

A refusal or a time-out that is part of normal work is a value, not an exception; these are for
what stops the work at hand.
"""

EXIT_RESTART = 3  # the status of a daemon that is to be started again at once


class LbdError(Exception):
    """Root. The text is one line for a person: what, where, and the fix."""


class ConfigError(LbdError):
    """The configuration or the command line is wrong: the user fixes it."""


class Inapplicable(LbdError):
    """The job is in no state for this order: where many jobs are meant, it is skipped."""


class PeerError(LbdError):
    """The other side sent something it should not have: drop it, and say who."""


class Unavailable(LbdError):
    """That host or daemon cannot be reached or cannot take it, and nothing ran: try another."""


class Incompatible(Unavailable):
    """That host runs a release too old or too new for ours: somebody has to upgrade one."""


class LostContact(LbdError):
    """Contact was lost after the work may have begun: never run it a second time."""
