"""What gRPC is told by its environment, before it is imported."""

from collections.abc import MutableMapping
from importlib import metadata

# From 1.80 on the Python library reads its sockets in threads of the new "event engine", from there
# to the poller's thread, from there to ours. Without it a message is here in half the time. Later
# releases have no other way, and complain about experiments they do not know.
EVENT_ENGINE_RELEASES = (1, 80), (1, 86)
WITHOUT_EVENT_ENGINE = "-event_engine_client,-event_engine_listener"


def settle(environment: MutableMapping[str, str]) -> None:
    """What the user has set stays."""
    # Its own lines on stderr (a port in use, a peer gone) come beside ours and say less.
    environment.setdefault("GRPC_VERBOSITY", "NONE")
    major, minor = metadata.version("grpcio").split(".")[:2]
    first, next_after = EVENT_ENGINE_RELEASES
    if first <= (int(major), int(minor)) < next_after:
        environment.setdefault("GRPC_EXPERIMENTS", WITHOUT_EVENT_ENGINE)
