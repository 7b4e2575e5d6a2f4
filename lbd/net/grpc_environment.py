"""The environment variables for gRPC, set before it is imported."""

import os
from collections.abc import MutableMapping
from importlib.util import find_spec

# From 1.80 on the Python library reads its sockets in threads of the new "event engine", then
# passes messages to the poller's thread, then to ours. Without it a message arrives in half the
# time. Later releases have no alternative, and complain about unknown experiments.
EVENT_ENGINE_RELEASES = (1, 80), (1, 86)
WITHOUT_EVENT_ENGINE = "-event_engine_client,-event_engine_listener"


def settle(environment: MutableMapping[str, str]) -> None:
    """Sets what gRPC needs unless the user has set it."""
    # Its own lines on stderr (a port in use, a peer gone) would duplicate ours and say less.
    environment.setdefault("GRPC_VERBOSITY", "NONE")
    major, minor = installed().split(".")[:2]
    first, next_after = EVENT_ENGINE_RELEASES
    if first <= (int(major), int(minor)) < next_after:
        environment.setdefault("GRPC_EXPERIMENTS", WITHOUT_EVENT_ENGINE)


def installed() -> str:
    """Returns the release of gRPC, usually from the name of pip's directory beside it.

    importlib.metadata always knows it, but costs each daemon more than a MiB permanently.
    """
    found = find_spec("grpc")
    for place in (found and found.submodule_search_locations) or ():
        for name in os.listdir(os.path.dirname(place)):
            project, _, release = name.removesuffix(".dist-info").partition("-")
            if project == "grpcio" and release and name.endswith(".dist-info"):
                return release
    from importlib import metadata

    return metadata.version("grpcio")
