"""What a future of an executor raises, apart from what its function raised."""

import pickle

from lbd.errors import LbdError, LostContact, Unavailable


class NotPicklable(LbdError, pickle.PicklingError):
    """A function or argument cannot be sent to another process; nothing was queued."""


class TaskLost(LostContact):
    """The worker ended while it ran the task."""


class NoWorkers(Unavailable):
    """No worker could be started on any host."""


class TaskKilled(LbdError):
    """`Executor.kill` ended the task."""


class RemoteError(LbdError):
    """The function raised an exception that cannot be sent; its traceback is in the text."""


class RemoteTraceback(Exception):
    """Holds the traceback from the host where the function ran."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'
