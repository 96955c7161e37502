"""The port of a gateway, opened before anything serves on it: what is wrong with it is said in words, and at once."""

from __future__ import annotations

import socket

from ferrule.errors import DefinitionError
from ferrule.server.config.config import Listening

_BACKLOG = 2048


def opened_port(listening: Listening) -> socket.socket:
    """Listens, and is accepted from by nobody yet."""
    host = listening.host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        made = socket.create_server((host, listening.port), family=family, backlog=_BACKLOG)
    except OSError as problem:
        raise DefinitionError(
            f"{host}:{listening.port} cannot be listened on: {problem.strerror}",
            hint="Give another --port (0 is any that is free), or another --host.",
        ) from problem
    made.setblocking(False)
    return made
