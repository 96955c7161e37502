"""Capabilities and their NATS subjects. Names only; no connection, no clock.

A capability is `server.tool@major.minor`; its subject is `t.<tenant>.<server>.<tool>.<major>`. The mapping is injective
in both directions: a character that a subject cannot contain is encoded by its bytes, so no two names share a subject.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from ferrule.errors import DefinitionError

_ROOT = "t"
_CHANGES = "n"
# An encoded byte is `=` and two hex digits, so these are never part of an encoded name and can mean something else.
_DEFINITIONS = "=="
_CANCELLATIONS = "=x"
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_TOKEN = re.compile(r"(?:[A-Za-z0-9_\-]|=[0-9A-F]{2})+")
_ENCODED_BYTE = re.compile(r"=([0-9A-F]{2})")
_VERSION = re.compile(r"(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})")
_MAX_LENGTH = 256
DEFAULT_VERSION = "1.0"


@dataclass(frozen=True, slots=True, order=True)
class Capability:
    """Something that a worker can do. `server` is the part of the name before the first dot."""

    server: str
    tool: str
    major: int = 1
    minor: int = 0

    def __post_init__(self) -> None:
        if not self.server or not self.tool or "." in self.server or "@" in self.name or len(self.name) > _MAX_LENGTH:
            raise DefinitionError(
                f"{self.name!r:.80} is not a capability name",
                hint="Write server.tool or server.tool@1.0: a dot, no @ in the name, at most 256 characters.",
            )

    @staticmethod
    def read(text: str, version: str | None = None) -> Capability:
        """Parse `server.tool@1.0`, or `server.tool` with a separate version."""
        name, _, version_text = text.partition("@")
        server, _, tool = name.partition(".")
        major, minor = version_of(version_text or version or DEFAULT_VERSION)
        return Capability(server, tool, major, minor)

    @property
    def name(self) -> str:
        """The name without its version, as scopes use it."""
        return f"{self.server}.{self.tool}"

    @property
    def version(self) -> str:
        return f"{self.major}.{self.minor}"

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"

    def serves(self, required: Capability) -> bool:
        """Whether this version satisfies the required one: the same major version and at least the minor version."""
        return self.name == required.name and self.major == required.major and self.minor >= required.minor

    def subject(self, tenant: str) -> str:
        return f"{_ROOT}.{encode_part(tenant)}.{encode_part(self.server)}.{encode_part(self.tool)}.{self.major}"


MODEL = Capability("llm", "chat", 2, 0)
"""A model on the bus (`llm_chat`). Programs ask it; it is no tool of other models."""


def version_of(text: str) -> tuple[int, int]:
    match = _VERSION.fullmatch(text)
    if match is None:
        raise DefinitionError(f"{text!r:.40} is not a version", hint="Write major.minor, such as 1.0.")
    return int(match[1]), int(match[2])


def read_subject(subject: str) -> tuple[str, Capability]:
    """The tenant and the capability of a subject. A subject has no minor version, so it is 0."""
    parts = subject.split(".")
    if len(parts) != 5 or parts[0] != _ROOT or not _VERSION.fullmatch(f"{parts[4]}.0"):
        raise DefinitionError(f"{subject!r:.80} is not the subject of a capability")
    tenant, server, tool = map(decode_part, parts[1:4])
    return tenant, Capability(server, tool, int(parts[4]))


def server_wildcard(tenant: str, server: str) -> str:
    """The wildcard for all tools of a server. A worker subscribes to it, so that NATS keeps one subscription."""
    return f"{_ROOT}.{encode_part(tenant)}.{encode_part(server)}.*.*"


def worker_wildcard(tenant: str, server: str, worker: str) -> str:
    """The wildcard for all calls to one worker. It has one part more than that of the server, which does not match."""
    return f"{server_wildcard(tenant, server)}.{worker}"


def definition_subject(tenant: str, server: str, fingerprint: str) -> str:
    """The subject to fetch a tool's definition by its hash. The server's wildcard and permissions cover it."""
    return f"{_ROOT}.{encode_part(tenant)}.{encode_part(server)}.{_DEFINITIONS}.{encode_part(fingerprint)}"


def requested_fingerprint(subject: str) -> str | None:
    """The hash of the definition that a subject requests; None if it requests something else."""
    parts = subject.split(".")
    return decode_part(parts[4]) if len(parts) == 5 and parts[3] == _DEFINITIONS else None


def cancel_subject(tenant: str, server: str, id: str) -> str:
    """The subject on which a caller cancels a call. `id` is the last part of its reply subject, or `*` for any call."""
    return f"{_ROOT}.{encode_part(tenant)}.{encode_part(server)}.{_CANCELLATIONS}.{id}"


def cancelled_id(subject: str) -> str | None:
    """The id of the call that a subject cancels; None if the subject means something else."""
    parts = subject.split(".")
    return parts[4] if len(parts) == 5 and parts[3] == _CANCELLATIONS else None


def call_id_of(reply: str) -> str:
    """The id of a call on the bus: the last part of its reply subject, which nobody can guess."""
    return reply.rpartition(".")[2]


def changes_subject(tenant: str) -> str:
    """The subject on which workers announce that they start or stop."""
    return f"{_CHANGES}.{encode_part(tenant)}"


def service_name(tenant: str) -> str:
    """The service name under which a tenant's workers answer discovery."""
    return f"ferrule-{encode_part(tenant)}"


@lru_cache(maxsize=4_096)
def encode_part(name: str) -> str:
    """Encode a name as one part of a subject."""
    if not name:
        raise DefinitionError("a part of a subject cannot be empty")
    data = name.encode("utf-8", "surrogatepass")
    return "".join(chr(byte) if byte in _PLAIN else f"={byte:02X}" for byte in data)


def decode_part(token: str) -> str:
    """Decode one part of a subject. Raises `DefinitionError` for a text that `encode_part` cannot produce."""
    if _TOKEN.fullmatch(token):
        data = _ENCODED_BYTE.sub(lambda match: chr(int(match[1], 16)), token).encode("latin-1")
        try:
            name = data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            name = ""
        if name and encode_part(name) == token:
            return name
    raise DefinitionError(f"{token!r:.80} is not an encoded part of a subject")
