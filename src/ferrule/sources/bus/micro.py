"""The NATS micro protocol, version 1: how a worker tells who it is and what it serves. Documents only, no connection.

Written here because the client library's own is serial, loses queued calls on stop and sends exception texts. INFO
holds the hash of each definition and never a schema: a long list would not fit into one message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

from ferrule.core.tool import ToolDefinition
from ferrule.errors import BusError, FerruleError
from ferrule.sources.bus.frame import json_bytes, read_json
from ferrule.sources.bus.subject import Capability

VERBS = ("PING", "INFO", "STATS")
QUEUE = "q"
_TYPE = "io.nats.micro.v1."
_CAPABILITY, _HASH = "capability", "def_hash"
# A definition as it travels: the fields of ToolDefinition in their order, and their types.
_DEFINITION: dict[str, type] = {
    **{"name": str, "description": str, "parameters": dict},
    **{"capability": str, "version": str, "side_effects": bool},
}
# So that INFO of a worker with very many tools is several messages, each far below what NATS carries.
_PER_PAGE = 250


@dataclass(slots=True)
class Endpoint:
    """One capability as a worker serves it, and what it has counted. `definition` is what a caller is given.

    `fingerprint` is the definition's: kept, because everybody who looks around asks for all of them.
    """

    capability: Capability
    subject: str
    definition: ToolDefinition
    fingerprint: str
    requests: int = 0
    errors: int = 0
    last_error: str = ""
    """A code, never an exception's text."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a worker is to discovery."""

    id: str
    name: str
    version: str
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    started: float = 0.0


@dataclass(frozen=True, slots=True)
class Found:
    """A capability that one worker says it serves."""

    worker: str
    capability: Capability
    fingerprint: str
    subject: str
    metadata: Mapping[str, str]
    """The worker's own."""


def control_subjects(identity: Identity) -> list[tuple[str, str]]:
    """Each verb with each subject that asks it: everybody, all of a name, one worker."""
    ends = ("", f".{identity.name}", f".{identity.name}.{identity.id}")
    return [(verb, f"$SRV.{verb}{end}") for verb in VERBS for end in ends]


def documents(verb: str, identity: Identity, endpoints: Iterable[Endpoint]) -> list[bytes]:
    """The answers to a verb; more than one where the list is long, each from an instance with a number of its own."""
    if verb == "PING":
        return [json_bytes({**_head("ping", identity)})]
    listed = list(endpoints)
    write = _info if verb == "INFO" else _stats
    pages = [listed[at : at + _PER_PAGE] for at in range(0, len(listed), _PER_PAGE)] or [[]]
    return [json_bytes(write(identity, page, number)) for number, page in enumerate(pages)]


def info_subject(name: str) -> str:
    return f"$SRV.INFO.{name}"


def stats_subject(name: str) -> str:
    return f"$SRV.STATS.{name}"


def read_info(body: bytes) -> list[Found]:
    """What an INFO says is served. Endpoints that are not capabilities of ours are left out."""
    document = _document(body, "info_response")
    metadata = _texts(document.get("metadata"))
    found: list[Found] = []
    for endpoint in _objects(document.get("endpoints")):
        told, subject = _texts(endpoint.get("metadata")), endpoint.get("subject")
        try:
            capability = Capability.read(told.get(_CAPABILITY, ""))
        except FerruleError:
            continue
        if isinstance(subject, str) and told.get(_HASH):
            found.append(Found(str(document.get("id")), capability, told[_HASH], subject, metadata))
    return found


def read_counts(body: bytes) -> dict[str, tuple[int, int]]:
    """Requests and errors by subject, out of a STATS."""
    counts: dict[str, tuple[int, int]] = {}
    for endpoint in _objects(_document(body, "stats_response").get("endpoints")):
        numbers = [endpoint.get(name) for name in ("num_requests", "num_errors")]
        whole = [number if isinstance(number, int) else 0 for number in numbers]
        counts[str(endpoint.get("subject"))] = (whole[0], whole[1])
    return counts


def definition_bytes(tool: ToolDefinition) -> bytes:
    """A definition as it is fetched by its hash."""
    values = (tool.name, tool.description, tool.parameters, tool.bound_capability, tool.bound_version)
    return json_bytes(dict(zip(_DEFINITION, (*values, tool.side_effects), strict=True)))


def read_definition(body: bytes, fingerprint: str) -> ToolDefinition:
    """The definition, if it is the one of that hash."""
    found: Any = read_json(body)
    try:
        values = [found[name] for name in _DEFINITION]
        is_typed = all(isinstance(value, kind) for value, kind in zip(values, _DEFINITION.values(), strict=True))
        tool = ToolDefinition(*values) if is_typed else None
    except (TypeError, KeyError, FerruleError) as problem:
        raise BusError("a worker sent a definition that is none") from problem
    if tool is None or tool.fingerprint != fingerprint:
        raise BusError("a worker sent a definition that does not have the hash it was asked for")
    return tool


def _head(kind: str, identity: Identity, page: int = 0) -> dict[str, Any]:
    return {
        "type": f"{_TYPE}{kind}_response",
        "name": identity.name,
        "id": f"{identity.id}-{page}" if page else identity.id,
        "version": identity.version,
        "metadata": dict(identity.metadata),
    }


def _info(identity: Identity, endpoints: list[Endpoint], page: int) -> dict[str, Any]:
    listed = [
        {
            "name": _plain(endpoint),
            "subject": endpoint.subject,
            "queue_group": QUEUE,
            "metadata": {_CAPABILITY: str(endpoint.capability), _HASH: endpoint.fingerprint},
        }
        for endpoint in endpoints
    ]
    return {**_head("info", identity, page), "description": "Tools served by Ferrule", "endpoints": listed}


def _stats(identity: Identity, endpoints: list[Endpoint], page: int) -> dict[str, Any]:
    listed: list[dict[str, Any]] = [
        {
            "name": _plain(endpoint),
            "subject": endpoint.subject,
            "queue_group": QUEUE,
            "num_requests": endpoint.requests,
            "num_errors": endpoint.errors,
            "last_error": endpoint.last_error,
            "processing_time": round(endpoint.seconds * 1e9),
            "average_processing_time": round(endpoint.seconds * 1e9 / max(1, endpoint.requests)),
            # Ours to leave out by the protocol, but not every reader of it knows.
            "data": {},
        }
        for endpoint in endpoints
    ]
    started = datetime.fromtimestamp(identity.started, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {**_head("stats", identity, page), "started": started, "endpoints": listed}


def _plain(endpoint: Endpoint) -> str:
    """An endpoint's name may hold letters, digits, - and _ only."""
    name = f"{endpoint.capability.name}-{endpoint.capability.major}"
    return "".join(one if one.isascii() and (one.isalnum() or one in "-_") else "-" for one in name)


def _document(body: bytes, kind: str) -> dict[str, Any]:
    found = read_json(body)
    if not isinstance(found, dict):
        raise BusError("a worker answered discovery with no object")
    document = cast("dict[str, Any]", found)
    if document.get("type") != _TYPE + kind:
        raise BusError("a worker answered discovery with another document")
    return document


def _objects(value: object) -> list[dict[str, Any]]:
    entries = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", entry) for entry in entries if isinstance(entry, dict)]


def _texts(value: object) -> dict[str, str]:
    pairs = cast("dict[str, Any]", value).items() if isinstance(value, dict) else ()
    return {name: text for name, text in pairs if isinstance(text, str)}
