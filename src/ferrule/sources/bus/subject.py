"""Capabilities and the subjects that they have on the bus. Names only: no connection, no clock.

A capability is `server.tool@major.minor`; its subject is `t.<tenant>.<server>.<tool>.<major>`. Both ways are
injective: what may not stand in a subject is spelled by its bytes, so no two names share a subject.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from ferrule.errors import DefinitionError

_ROOT = "t"
_CHANGES = "n"
# A spelled byte is `=` and two digits, so a lone `==` is no name's spelling and can mean something else.
_DEFINITIONS = "=="
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_TOKEN = re.compile(r"(?:[A-Za-z0-9_\-]|=[0-9A-F]{2})+")
_SPELLED = re.compile(r"=([0-9A-F]{2})")
_VERSION = re.compile(r"(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})")
_LONGEST = 256
DEFAULT_VERSION = "1.0"


@dataclass(frozen=True, slots=True, order=True)
class Capability:
    """What can be asked of a bus. `server` is the part before the first dot of the name, and has none itself."""

    server: str
    tool: str
    major: int = 1
    minor: int = 0

    def __post_init__(self) -> None:
        if not self.server or not self.tool or "." in self.server or "@" in self.name or len(self.name) > _LONGEST:
            raise DefinitionError(
                f"{self.name!r:.80} is no capability",
                hint="Write server.tool or server.tool@1.0: a dot, no @ in the name, at most 256 characters.",
            )

    @staticmethod
    def read(text: str, version: str | None = None) -> Capability:
        """From `server.tool@1.0`, or `server.tool` and a version beside it."""
        name, _, written = text.partition("@")
        server, _, tool = name.partition(".")
        major, minor = version_of(written or version or DEFAULT_VERSION)
        return Capability(server, tool, major, minor)

    @property
    def name(self) -> str:
        """Without its version: what a scope names."""
        return f"{self.server}.{self.tool}"

    @property
    def version(self) -> str:
        return f"{self.major}.{self.minor}"

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"

    def serves(self, wanted: Capability) -> bool:
        """A newer minor version does everything that an older one did; another major version need not."""
        return self.name == wanted.name and self.major == wanted.major and self.minor >= wanted.minor

    def subject(self, tenant: str) -> str:
        return f"{_ROOT}.{spelled(tenant)}.{spelled(self.server)}.{spelled(self.tool)}.{self.major}"


def version_of(text: str) -> tuple[int, int]:
    found = _VERSION.fullmatch(text)
    if found is None:
        raise DefinitionError(f"{text!r:.40} is no version", hint="Write major.minor, such as 1.0.")
    return int(found[1]), int(found[2])


def read_subject(subject: str) -> tuple[str, Capability]:
    """The tenant and the capability of a subject; its minor version is not in it and comes out as 0."""
    parts = subject.split(".")
    if len(parts) != 5 or parts[0] != _ROOT or not _VERSION.fullmatch(f"{parts[4]}.0"):
        raise DefinitionError(f"{subject!r:.80} is no capability's subject")
    tenant, server, tool = map(unspelled, parts[1:4])
    return tenant, Capability(server, tool, int(parts[4]))


def server_wildcard(tenant: str, server: str) -> str:
    """All tools of a server: what a worker subscribes to, so that the bus holds one entry and not one for each."""
    return f"{_ROOT}.{spelled(tenant)}.{spelled(server)}.*.*"


def definition_subject(tenant: str, server: str, fingerprint: str) -> str:
    """Where a tool's definition is asked for by its hash. It lies under the server's wildcard and its permissions."""
    return f"{_ROOT}.{spelled(tenant)}.{spelled(server)}.{_DEFINITIONS}.{spelled(fingerprint)}"


def definition_wanted(subject: str) -> str | None:
    """The hash that a subject asks the definition of; None where it asks for something else."""
    parts = subject.split(".")
    return unspelled(parts[4]) if len(parts) == 5 and parts[3] == _DEFINITIONS else None


def changes_subject(tenant: str) -> str:
    """Where workers say that they came or go."""
    return f"{_CHANGES}.{spelled(tenant)}"


def service_name(tenant: str) -> str:
    """The name under which a tenant's workers answer discovery: another tenant's are not asked."""
    return f"ferrule-{spelled(tenant)}"


@lru_cache(maxsize=4_096)
def spelled(name: str) -> str:
    """A name as one part of a subject."""
    if not name:
        raise DefinitionError("a part of a subject cannot be empty")
    data = name.encode("utf-8", "surrogatepass")
    return "".join(chr(byte) if byte in _PLAIN else f"={byte:02X}" for byte in data)


def unspelled(token: str) -> str:
    """The name that was spelled; a token that `spelled` does not write is refused."""
    if _TOKEN.fullmatch(token):
        data = _SPELLED.sub(lambda found: chr(int(found[1], 16)), token).encode("latin-1")
        try:
            name = data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            name = ""
        if name and spelled(name) == token:
            return name
    raise DefinitionError(f"{token!r:.80} is no part of a subject that we write")
