"""The NATS micro protocol, version 1: how a worker says who it is and what it serves. Documents only; no connection.

It is implemented here because the client library's version runs calls one at a time, loses queued calls on stop and
sends exception messages to callers. INFO contains the hash of each definition and never a schema: a long list would not
fit into one message.

The protocol's INFO request has no body, and its answer is the whole list. A caller that looks every few seconds sends a
body: "brief" asks for the hash of the list only, and "of" asks the named workers for their lists. A worker that does
not know these bodies ignores them and answers with its list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

from ferrule.core.text_grammar import TextGrammar
from ferrule.core.tool import ToolDefinition
from ferrule.errors import BusError, FerruleError
from ferrule.sources.bus.frame import json_bytes, read_json
from ferrule.sources.bus.subject import Capability

VERBS = ("PING", "INFO", "STATS")
QUEUE = "q"
_TYPE = "io.nats.micro.v1."
_CAPABILITY, _HASH = "capability", "def_hash"
# A definition on the wire: the fields of ToolDefinition in their order, and their types.
_DEFINITION: dict[str, type] = {
    **{"name": str, "description": str, "parameters": dict},
    **{"capability": str, "version": str, "side_effects": bool},
}
# INFO of a worker with very many tools is split into several messages, each far below NATS' limit.
_PER_PAGE = 250
_WORKER_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
BRIEF_REQUEST = b'{"brief":true}'
"""The body of an INFO request that asks only for the hash of each worker's list."""


@dataclass(slots=True)
class Endpoint:
    """One capability that a worker serves, and its counters. `definition` is what callers receive.

    `fingerprint` is the hash of the definition. It is cached because every discovery request asks for all of them.
    """

    capability: Capability
    subject: str
    definition: ToolDefinition
    fingerprint: str
    requests: int = 0
    errors: int = 0
    last_error: str = ""
    """An error code, never an exception's message."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Identity:
    """A worker's identity in discovery."""

    id: str
    name: str
    version: str
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    started: float = 0.0


@dataclass(frozen=True, slots=True)
class ServedCapability:
    """A capability that one worker reports to serve."""

    worker: str
    capability: Capability
    fingerprint: str
    subject: str
    metadata: Mapping[str, str]
    """The worker's metadata."""


@dataclass(frozen=True, slots=True)
class BriefInfo:
    """The short answer to a look: the hash of a worker's list, and in how many messages the worker sends the list.

    `cap` is how many calls it takes at once, or 0 if it cannot be called by its id.
    """

    worker: str
    list_hash: str
    pages: int
    cap: int = 0


def control_subjects(identity: Identity) -> list[tuple[str, str]]:
    """Every verb with its subjects: all services, all services of one name, one worker."""
    ends = ("", f".{identity.name}", f".{identity.name}.{identity.id}")
    return [(verb, f"$SRV.{verb}{end}") for verb in VERBS for end in ends]


def documents(verb: str, identity: Identity, endpoints: Iterable[Endpoint]) -> list[bytes]:
    """The answers to a verb. A long list is split into pages; each page has its own instance id."""
    if verb == "PING":
        return [json_bytes({**_head("ping", identity)})]
    all_endpoints = list(endpoints)
    write = _info if verb == "INFO" else _stats
    pages = [all_endpoints[at : at + _PER_PAGE] for at in range(0, len(all_endpoints), _PER_PAGE)] or [[]]
    return [json_bytes(write(identity, page, number)) for number, page in enumerate(pages)]


def page_ids(worker: str, pages: int) -> list[str]:
    """The instance ids of the pages of a worker's list."""
    return [_page_id(worker, page) for page in range(pages)]


def brief_bytes(identity: Identity, list_hash: str, endpoints: int, cap: int = 0) -> bytes:
    """Encode the short answer to a look. Many workers answer each look, so it is an array without names."""
    pages = max(1, -(-endpoints // _PER_PAGE))
    return f'["{identity.id}","{list_hash}",{pages},{cap}]'.encode("ascii")


def read_brief(body: bytes) -> BriefInfo | None:
    """Decode a short answer; None if it is something else. Entries after those that are known here are ignored."""
    if not body.startswith(b"["):
        return None
    try:
        entries = cast("list[Any]", read_json(body))
    except BusError:
        return None
    match entries[:4]:
        case [str(worker), str(list_hash), int(pages), int(cap)] if _WORKER_ID.fullmatch(worker) and pages > 0:
            return BriefInfo(worker, list_hash, pages, max(0, cap))
        case _:
            return None


def list_request(workers: Iterable[str]) -> bytes:
    """Encode an INFO request that only the named workers answer, with their lists."""
    return json_bytes({"of": list(workers)})


def is_brief_request(body: bytes) -> bool:
    return body == BRIEF_REQUEST


def is_asked(body: bytes, worker: str) -> bool:
    """Whether an INFO request that is not brief is for this worker. One without a body is for all workers."""
    if not body:
        return True
    try:
        document = read_json(body)
    except BusError:
        return True
    workers = cast("dict[str, Any]", document).get("of") if isinstance(document, dict) else None
    return worker in cast("list[Any]", workers) if isinstance(workers, list) else True


def info_subject(name: str) -> str:
    return f"$SRV.INFO.{name}"


def stats_subject(name: str) -> str:
    return f"$SRV.STATS.{name}"


def read_info(body: bytes) -> list[ServedCapability]:
    """The capabilities in an INFO document. Endpoints that are not Ferrule's are left out."""
    document = _document(body, "info_response")
    metadata = _texts(document.get("metadata"))
    capabilities: list[ServedCapability] = []
    for endpoint in _objects(document.get("endpoints")):
        labels, subject = _texts(endpoint.get("metadata")), endpoint.get("subject")
        try:
            capability = Capability.read(labels.get(_CAPABILITY, ""))
        except FerruleError:
            continue
        if isinstance(subject, str) and labels.get(_HASH):
            capabilities.append(ServedCapability(str(document.get("id")), capability, labels[_HASH], subject, metadata))
    return capabilities


def read_counts(body: bytes) -> dict[str, tuple[int, int]]:
    """Requests and errors by subject, from a STATS document."""
    counts: dict[str, tuple[int, int]] = {}
    for endpoint in _objects(_document(body, "stats_response").get("endpoints")):
        numbers = [endpoint.get(name) for name in ("num_requests", "num_errors")]
        whole = [number if isinstance(number, int) else 0 for number in numbers]
        counts[str(endpoint.get("subject"))] = (whole[0], whole[1])
    return counts


def goodbye_bytes(identity: Identity) -> bytes:
    """Encode the announcement that a worker stops. An announcement without a body says only that something changed."""
    return json_bytes({"gone": identity.id})


def read_goodbye(body: bytes) -> str:
    """The worker that says goodbye in an announcement; empty if it says something else."""
    try:
        value = read_json(body) if body else None
    except BusError:
        return ""
    return _texts(value).get("gone", "")


def definition_bytes(tool: ToolDefinition) -> bytes:
    """Encode a definition, as callers fetch it by its hash."""
    values = (tool.name, tool.description, tool.parameters, tool.bound_capability, tool.bound_version)
    grammar = tool.input_grammar.as_json() if tool.input_grammar else {}
    # Written for custom tools only: an earlier version reads the other fields and finds that the hash differs.
    custom = {"custom": grammar} if tool.is_custom else {}
    return json_bytes({**dict(zip(_DEFINITION, (*values, tool.side_effects), strict=True)), **custom})


def read_definition(body: bytes, fingerprint: str) -> ToolDefinition:
    """Decode a definition. Raises `BusError` if it does not have that hash."""
    document: Any = read_json(body)
    try:
        values = [document[name] for name in _DEFINITION]
        custom = document.get("custom")
        is_typed = isinstance(custom, dict | None) and all(
            isinstance(value, kind) for value, kind in zip(values, _DEFINITION.values(), strict=True)
        )
        grammar = TextGrammar.from_json(cast("dict[str, Any]", custom)) if custom else None
        tool = ToolDefinition(*values, is_custom=custom is not None, input_grammar=grammar) if is_typed else None
    except (TypeError, KeyError, AttributeError, FerruleError) as problem:
        raise BusError("a worker sent an invalid tool definition") from problem
    if tool is None or tool.fingerprint != fingerprint:
        raise BusError("a worker sent a tool definition with another hash than requested")
    return tool


def _head(kind: str, identity: Identity, page: int = 0) -> dict[str, Any]:
    return {
        "type": f"{_TYPE}{kind}_response",
        "name": identity.name,
        "id": _page_id(identity.id, page),
        "version": identity.version,
        "metadata": dict(identity.metadata),
    }


def _page_id(worker: str, page: int) -> str:
    return f"{worker}-{page}" if page else worker


def _info(identity: Identity, endpoints: list[Endpoint], page: int) -> dict[str, Any]:
    entries = [
        {
            "name": _endpoint_name(endpoint),
            "subject": endpoint.subject,
            "queue_group": QUEUE,
            "metadata": {_CAPABILITY: str(endpoint.capability), _HASH: endpoint.fingerprint},
        }
        for endpoint in endpoints
    ]
    return {**_head("info", identity, page), "description": "Tools served by Ferrule", "endpoints": entries}


def _stats(identity: Identity, endpoints: list[Endpoint], page: int) -> dict[str, Any]:
    entries: list[dict[str, Any]] = [
        {
            "name": _endpoint_name(endpoint),
            "subject": endpoint.subject,
            "queue_group": QUEUE,
            "num_requests": endpoint.requests,
            "num_errors": endpoint.errors,
            "last_error": endpoint.last_error,
            "processing_time": round(endpoint.seconds * 1e9),
            "average_processing_time": round(endpoint.seconds * 1e9 / max(1, endpoint.requests)),
            # Optional in the protocol, but some readers require it.
            "data": {},
        }
        for endpoint in endpoints
    ]
    started = datetime.fromtimestamp(identity.started, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {**_head("stats", identity, page), "started": started, "endpoints": entries}


def _endpoint_name(endpoint: Endpoint) -> str:
    """The name of an endpoint. NATS allows only letters, digits, - and _."""
    name = f"{endpoint.capability.name}-{endpoint.capability.major}"
    return "".join(char if char.isascii() and (char.isalnum() or char in "-_") else "-" for char in name)


def _document(body: bytes, kind: str) -> dict[str, Any]:
    value = read_json(body)
    if not isinstance(value, dict):
        raise BusError("a worker answered discovery with something that is not a JSON object")
    document = cast("dict[str, Any]", value)
    if document.get("type") != _TYPE + kind:
        raise BusError("a worker answered discovery with the wrong document type")
    return document


def _objects(value: object) -> list[dict[str, Any]]:
    entries = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", entry) for entry in entries if isinstance(entry, dict)]


def _texts(value: object) -> dict[str, str]:
    pairs = cast("dict[str, Any]", value).items() if isinstance(value, dict) else ()
    return {name: text for name, text in pairs if isinstance(text, str)}
