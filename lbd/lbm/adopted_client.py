"""A connection to lbm.sock, handed from one LBM of its host to the next.

The client notices nothing. What the kernel says of the client belongs to the socket, and so does
what it has sent meanwhile.
"""

from lbd.errors import PeerError
from lbd.lbm.account_cache import user_name
from lbd.lbm.adopted_command import AdoptedCommand, Talks, adopt
from lbd.lbm.bundle import Bundle, Given, NotNow
from lbd.lbm.client import Ends
from lbd.lbm.clients import Connection
from lbd.lbm.modes import read_modes
from lbd.lbm.request import read_request
from lbd.lbm.terminal import CallersTerminal
from lbd.rpc import client_tags as tags
from lbd.rpc import frames
from lbd.rpc.gen.handover_pb2 import HeldClient


class AdoptedConnection(Connection):
    """Restored from what `save` has written; `go_on` in place of `serve`."""

    @staticmethod
    def save(connection: Connection, bundle: Bundle) -> HeldClient | None:
        """None: it has its answer. Raises NotNow.

        Between two steps of the event loop, after which there are none.
        """
        command = connection.command
        if connection._told_end:
            return None
        if connection._is_answering or (
            command is not None and AdoptedCommand.is_moving_files(command)
        ):
            raise NotNow
        early = connection._early if command is None else []
        unheard = [frames.pack(*frame) for frame in (*early, *connection._unheard)]
        held = HeldClient()
        if command is None or not (connection._stays or AdoptedCommand.has_left(command)):
            if connection._run_body:
                unheard.insert(0, frames.pack(tags.RUN, connection._run_body))
            if command is not None:
                unheard += [
                    frames.pack(tags.SIGNAL, bytes((number,)))
                    for number in AdoptedCommand.withdraw(command)
                ]
        else:
            held.request = connection._run_body
            held.command.CopyFrom(AdoptedCommand.save(command, bundle))
            held.command.stays = connection._stays
            held.command.process = bundle.add(
                -1 if connection.peer.pidfd is None else connection.peer.pidfd
            )
            connection._save_ends(held, bundle)
        held.socket = bundle.add(connection._socket.fileno())
        held.received = b"".join([*unheard, connection._frames.split.rest])
        held.descriptors.extend(bundle.add(number) for number in connection._frames.descriptors)
        return held

    def start_again(self, held: HeldClient, given: Given) -> None:
        """Nothing has come of its request yet: `serve` reads it anew."""
        self._frames.descriptors = [given.take(place) for place in held.descriptors]
        self._unheard = self._frames.split.feed(held.received)
        self._frames.share.add(len(held.received))

    def restore(self, held: HeldClient, talks: Talks, given: Given) -> None:
        """Raises OSError, KeyError, ValueError."""
        self.start_again(held, given)
        self._run_body, self._stays = held.request, held.command.stays
        self._frames.share.add(len(held.request))
        request = read_request(held.request)
        self._know(request)
        caller = user_name(self.caller.uid), self.caller.uid
        if (pidfd := given.take_any(held.command.process)) is not None:
            self.peer.replace_pidfd(pidfd)
        self._asked_for_ends = held.asked_for_ends
        if held.terminal:
            modes = read_modes(held.modes) if held.modes else None
            self._terminal = CallersTerminal(given.take(held.terminal), modes, self._threads)
        if held.ready:
            self._ready.set()
        if held.has_ends:
            self._ends.set_result(Ends(*(given.take_any(place) for place in held.ends)))
        elif held.command.run.following:
            self._taken = True
            self._ends.set_result(Ends(None, None, None))
        self.command = command = adopt(self._home, self, request, caller, held.command)
        command.restore(held.command, talks, given)

    async def go_on(self) -> None:
        """Until the client is gone, or its command has ended."""
        command = self.command
        assert command is not None
        try:
            if self._stays:
                self._home.jobs.add(command.job)
                await self._see_out(command)
            else:
                await self._attend(command)
        except (ValueError, PeerError, TimeoutError, OSError):
            pass
        finally:
            self.close()
