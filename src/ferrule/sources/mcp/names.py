"""The names under which MCP tools are offered. No two tools share a name, whatever the servers are called.

The name is `server_tool` wherever possible. It depends only on the configuration and the tool, so it is the same in
every process and does not change when other servers or tools appear or disappear. It is never split again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ferrule.core.json_text import digest

# The limit of the strictest large provider for the name of a function.
LONGEST_NAME = 64
_LONGEST_PREFIX = 32
_PLAIN_SERVER = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_PLAIN_TOOL = re.compile(r"[A-Za-z0-9_-]+")
_OTHER = re.compile(r"[^A-Za-z0-9]+")
_MIN_HASH_LENGTH, _HASH_LENGTH = 6, 10


def prefixes(servers: Iterable[str]) -> dict[str, str]:
    """The prefix of each server.

    No prefix followed by `_` begins with another one, so that two servers' tools cannot get the same name.
    """
    names = sorted(set(servers), key=lambda name: (len(name), name))
    plain: list[str] = []
    for name in names:
        fits = _PLAIN_SERVER.fullmatch(name) and len(name) <= _LONGEST_PREFIX
        if fits and not any(f"{name}_".startswith(f"{other}_") for other in plain):
            plain.append(name)
    by_server = {name: name for name in plain}
    for name in names:
        if name not in by_server:
            by_server[name] = _hashed_prefix(name, set(by_server.values()))
    return by_server


def offered_name(prefix: str, server: str, tool: str) -> str:
    """The offered name of a tool: its server's prefix and its own name, or a hash if that is not a valid name."""
    plain = f"{prefix}_{tool}"
    if _PLAIN_TOOL.fullmatch(tool) and len(plain) <= LONGEST_NAME:
        return plain
    suffix = digest([server, tool])[:_HASH_LENGTH]
    return f"{prefix}_{_slug(tool)[: LONGEST_NAME - len(prefix) - _HASH_LENGTH - 2]}-{suffix}"


def _hashed_prefix(name: str, taken: set[str]) -> str:
    """A prefix without `_` that ends in a hash. The hash grows until the prefix is unique."""
    slug = _slug(name)[: _LONGEST_PREFIX - _MIN_HASH_LENGTH - 2]
    head = slug if slug[:1].isalpha() else f"s{slug}"
    whole = digest(name)
    for length in range(_MIN_HASH_LENGTH, len(whole)):
        prefix = f"{head}-{whole[:length]}"
        if not any(f"{other}_".startswith(f"{prefix}_") for other in taken):
            return prefix
    return f"{head}-{whole}"


def _slug(text: str) -> str:
    return _OTHER.sub("-", text).strip("-")
