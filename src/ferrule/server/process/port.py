"""Open the gateway's port before anything else starts, so that a port in use is reported at once."""

from __future__ import annotations

import socket

from ferrule.errors import DefinitionError
from ferrule.server.config.config import ServerConfig

_BACKLOG = 2048


def open_port(server_config: ServerConfig) -> socket.socket:
    """Open a listening socket. Nothing accepts from it yet."""
    host = server_config.host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, server_config.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise DefinitionError(
            f"cannot listen on {host}:{server_config.port}: {error.strerror}",
            hint="Give another --port (0 selects a free one), or another --host.",
        ) from error
    listener.setblocking(False)
    return listener
