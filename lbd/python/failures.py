"""What a future of an executor raises beside what its function raised."""

import pickle

from lbd.errors import LbdError, LostContact, Unavailable


class NotPicklable(LbdError, pickle.PicklingError):
    """A function or an argument that cannot be sent to another process; nothing was queued."""


class TaskLost(LostContact):
    """The task's worker ended in the middle of it."""


class NoWorkers(Unavailable):
    """No worker could be started anywhere."""


class TaskKilled(LbdError):
    """`Executor.kill` ended the task."""


class RemoteError(LbdError):
    """An exception of the function that cannot be sent; its traceback is in the text."""


class RemoteTraceback(Exception):
    """The traceback as it was where the function ran."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'
