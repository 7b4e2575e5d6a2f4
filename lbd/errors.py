"""The error tree, split by what the caller does next.

A refusal or a timeout that is part of normal work is a value, not an exception. These exceptions
are for what stops the work at hand.
"""

EXIT_RESTART = 3  # exit status of a daemon that wants to be restarted at once
EXIT_NO_ADDRESS = 4  # of a daemon whose address is not there, or taken: to be tried again
EXIT_NOT_HERE = 5  # of a dispatcher on a host without the queue, to whatever manages it


class LbdError(Exception):
    """The root. The text is one line for a person: what, where, and the fix."""


class ConfigError(LbdError):
    """The configuration or the command line is wrong: the user fixes it."""


class NotHere(ConfigError):
    """The daemon is not to run on this host."""


class NoAddress(LbdError):
    """The address or port to listen on is not there yet, or taken: try again later."""


class Inapplicable(LbdError):
    """The job's state does not allow this order. An order for many jobs skips this one."""


class PeerError(LbdError):
    """The peer sent something it should not have: drop it, and name the peer."""


class Unavailable(LbdError):
    """That host or daemon cannot be reached or cannot take the work, and nothing ran: try
    another."""


class Incompatible(Unavailable):
    """That host runs a release too old or too new for ours: one of the two must be upgraded."""


class LostContact(LbdError):
    """Contact was lost after the work may have begun: never run it a second time."""
