"""Names under which tools of MCP servers are offered: no two tools share one, whatever servers call themselves.

`server_tool` is kept wherever it can be. A name is a function of the configuration and of the tool alone: it is the
same in every process and does not change when other servers or tools come and go. Nobody cuts it apart again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ferrule.core.json_text import digest

# What the strictest of the large providers takes as a function's name.
LONGEST_NAME = 64
_LONGEST_PREFIX = 32
_PLAIN_SERVER = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_PLAIN_TOOL = re.compile(r"[A-Za-z0-9_-]+")
_OTHER = re.compile(r"[^A-Za-z0-9]+")
_SHORT, _MARK = 6, 10


def prefixes(servers: Iterable[str]) -> dict[str, str]:
    """The prefix of each server. With `_` behind it none begins with another, so that what follows cannot blur them."""
    names = sorted(set(servers), key=lambda name: (len(name), name))
    plain: list[str] = []
    for name in names:
        fits = _PLAIN_SERVER.fullmatch(name) and len(name) <= _LONGEST_PREFIX
        if fits and not any(f"{name}_".startswith(f"{kept}_") for kept in plain):
            plain.append(name)
    found = {name: name for name in plain}
    for name in names:
        if name not in found:
            found[name] = _marked(name, set(found.values()))
    return found


def wire_name(prefix: str, server: str, tool: str) -> str:
    """The name of a tool under its server's prefix."""
    plain = f"{prefix}_{tool}"
    if _PLAIN_TOOL.fullmatch(tool) and len(plain) <= LONGEST_NAME:
        return plain
    mark = digest([server, tool])[:_MARK]
    return f"{prefix}_{_slug(tool)[: LONGEST_NAME - len(prefix) - _MARK - 2]}-{mark}"


def _marked(name: str, taken: set[str]) -> str:
    """A prefix without `_`, told apart by its hash, which grows until no server is called like it."""
    slug = _slug(name)[: _LONGEST_PREFIX - _SHORT - 2]
    head = slug if slug[:1].isalpha() else f"s{slug}"
    whole = digest(name)
    for length in range(_SHORT, len(whole)):
        prefix = f"{head}-{whole[:length]}"
        if not any(f"{other}_".startswith(f"{prefix}_") for other in taken):
            return prefix
    return f"{head}-{whole}"


def _slug(text: str) -> str:
    return _OTHER.sub("-", text).strip("-")
