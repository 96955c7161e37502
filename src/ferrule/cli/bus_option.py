"""The options for the NATS connection and its key."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path

from ferrule.errors import DefinitionError
from ferrule.sources.bus.bus import Bus
from ferrule.sources.bus.connection import DEFAULT_URL
from ferrule.sources.bus.token import LOCAL

URL_VARIABLE, KEY_VARIABLE = "FERRULE_NATS", "FERRULE_BUS_KEY"


def add_bus_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--nats",
        default=os.environ.get(URL_VARIABLE, DEFAULT_URL),
        metavar="URL",
        help=f"the NATS server, such as nats://user:password@host:4222 (default: ${URL_VARIABLE}, or {DEFAULT_URL})",
    )
    parser.add_argument("--credentials", default="", metavar="FILE", help="a .creds file, if the server requires one")
    parser.add_argument(
        "--inbox",
        default="",
        metavar="PREFIX",
        help="the prefix of reply subjects, if permissions require one (default: random)",
    )
    parser.add_argument("--tenant", default=LOCAL, metavar="NAME", help="the tenant (default: local)")


def add_key_option(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--key-file",
        metavar="FILE",
        help=f"the key that callers sign tokens with (or ${KEY_VARIABLE}); without one only the tenant local is served",
    )


def bus_of(arguments: Namespace, key: bytes | None = None) -> Bus:
    """Create the bus from the options."""
    return Bus(
        arguments.nats, tenant=arguments.tenant, key=key, credentials=arguments.credentials, inbox=arguments.inbox
    )


def key_of(arguments: Namespace) -> bytes | None:
    """Read the key from its file or the environment, never from the command line, where other users could read it."""
    if arguments.key_file:
        try:
            return Path(arguments.key_file).read_bytes().strip()
        except OSError as problem:
            raise DefinitionError(f"cannot read the key file {arguments.key_file}: {problem.strerror}") from problem
    key = os.environ.get(KEY_VARIABLE, "")
    return key.encode() or None
