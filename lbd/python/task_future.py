"""A future that notifies its executor when it is cancelled, and the decoding of its answer."""

import pickle
from collections.abc import Callable
from concurrent.futures import Future

from lbd.python import wire
from lbd.python.failures import RemoteError, RemoteTraceback


class TaskFuture(Future[object]):
    def __init__(self, number: int, cancel: Callable[[int], bool]) -> None:
        super().__init__()
        self.number = number
        self._cancel = cancel

    def cancel(self) -> bool:
        """Returns False once the task was sent to a worker; `Executor.kill` ends it even then."""
        if self.cancelled():
            return True
        if not (self._cancel(self.number) and super().cancel()):
            return False
        self.set_running_or_notify_cancel()  # no worker will run it: notifies those who wait
        return True


def resolve(future: TaskFuture, how: int, payload: bytes) -> None:
    """Answers a future with what its worker sent."""
    try:
        if how == wire.VALUE:
            future.set_result(pickle.loads(payload))  # noqa: S301  # the user's own
        elif how == wire.RAISED:
            size = int.from_bytes(payload[:4], "little")
            text = payload[4 : 4 + size].decode(errors="replace")
            future.set_exception(exception_of(payload[4 + size :], text))
        else:
            future.set_exception(RemoteError(payload.decode(errors="replace")))
    except Exception as problem:  # unpickling may run arbitrary code
        future.set_exception(RemoteError(f"the result cannot be read here: {problem!r}"))


def exception_of(pickled: bytes, text: str) -> BaseException:
    """Returns the exception with its traceback as the cause; only the text if unpickling fails."""
    try:
        problem = pickle.loads(pickled)  # noqa: S301  # as above
    except Exception:
        return RemoteError(text)
    if not isinstance(problem, BaseException):
        return RemoteError(text)
    problem.__cause__ = RemoteTraceback(text)
    return problem
