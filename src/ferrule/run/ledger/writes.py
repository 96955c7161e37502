"""What a step can write besides its conversation: the tables, their columns, and how a row is added or changed.

From this one description come the statements of both databases (`step_sql`). A row that changes another one names the
state that it leads away from. If that is not there, somebody has changed the row past the ledger, and the whole step
is undone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The kinds of rows, in the order in which they are written."""

    MESSAGE = "message"
    CALL = "call"
    CALL_STATE = "call_state"
    CALL_CHANGE = "call_change"
    APPROVAL = "approval"
    APPROVAL_CHANGE = "approval_change"
    TERMS = "terms"
    VOTE = "vote"
    RESPONSE = "response"
    RESPONSE_CHANGE = "response_change"
    EVENT_REMOVAL = "event_removal"
    OLD_EVENT_REMOVAL = "old_event_removal"
    RESPONSE_REMOVAL = "response_removal"
    EVENT = "event"
    SELECTION = "selection"
    PICK = "pick"
    PICK_REMOVAL = "pick_removal"
    CONTINUATION = "continuation"
    REQUEST = "request"
    AUDIT = "audit"


class Type(StrEnum):
    """The type of a column. BYTES hold UTF-8."""

    TEXT = "TEXT"
    INTEGER = "BIGINT"
    REAL = "DOUBLE PRECISION"
    BYTES = "BYTEA"


@dataclass(frozen=True, slots=True)
class Write:
    """How one kind of row is written. `columns` are in the order of the values.

    With `where` it changes or removes the rows that match: those columns are the last ones. Otherwise it adds a row;
    `replaces` are the columns that an existing row with the same `key` is given, by their expressions.
    """

    table: str
    columns: Mapping[str, Type]
    key: tuple[str, ...] = ()
    replaces: Mapping[str, str] | None = None
    where: Mapping[str, str] | None = None
    """The condition for each of these columns, with `{}` for the value."""
    removes: bool = False
    is_certain: bool = False
    """Whether each row must change exactly one."""


def _typed(text: str, **others: Type) -> dict[str, Type]:
    return {name: others.get(name, Type.TEXT) for name in text.split()}


def _replaced(text: str) -> dict[str, str]:
    return {name: f"excluded.{name}" for name in text.split()}


_INTEGER, _REAL, _BYTES = Type.INTEGER, Type.REAL, Type.BYTES
_CALL_STATE = "state epoch outcome"
_CALL_WHERE = {"conversation": "conversation = {}", "id": "id = {}", "was": "state = {}"}
_APPROVAL_STATE = "state decided_by decided_at why arguments arguments_sha256 binding"

WRITES: Mapping[Kind, Write] = {
    Kind.MESSAGE: Write(
        "ferrule_message",
        _typed("born conversation n body", born=_INTEGER, n=_INTEGER),
        key=("conversation", "n", "born"),
        replaces=_replaced("body"),
    ),
    Kind.CALL: Write(
        "ferrule_call",
        _typed(
            "conversation id tool tool_fingerprint arguments arguments_sha256 binding side_effects needs_leave state "
            "epoch outcome",
            arguments=_BYTES,
            side_effects=_INTEGER,
            needs_leave=_INTEGER,
            epoch=_INTEGER,
        ),
    ),
    # Of a call whose arguments stay as they are.
    Kind.CALL_STATE: Write(
        "ferrule_call",
        _typed(f"{_CALL_STATE} conversation id was", epoch=_INTEGER),
        where=_CALL_WHERE,
        is_certain=True,
    ),
    Kind.CALL_CHANGE: Write(
        "ferrule_call",
        _typed(
            f"arguments arguments_sha256 binding {_CALL_STATE} conversation id was", arguments=_BYTES, epoch=_INTEGER
        ),
        where=_CALL_WHERE,
        is_certain=True,
    ),
    Kind.APPROVAL: Write(
        "ferrule_approval",
        _typed(
            "id conversation call_id tenant principal tool tool_fingerprint arguments arguments_sha256 binding state "
            "requested_at expires_at decided_by decided_at why",
            arguments=_BYTES,
            requested_at=_REAL,
            expires_at=_REAL,
            decided_at=_REAL,
        ),
    ),
    Kind.APPROVAL_CHANGE: Write(
        "ferrule_approval",
        _typed(f"{_APPROVAL_STATE} id was was_binding", decided_at=_REAL, arguments=_BYTES),
        where={"id": "id = {}", "was": "state = {}", "was_binding": "binding = {}"},
        is_certain=True,
    ),
    Kind.TERMS: Write(
        "ferrule_approval_terms",
        _typed("approval approvers four_eyes changes", approvers=_INTEGER, four_eyes=_INTEGER, changes=_INTEGER),
        key=("approval",),
        replaces=_replaced("approvers four_eyes changes"),
    ),
    Kind.VOTE: Write("ferrule_vote", _typed("approval voter binding at", at=_REAL)),
    Kind.RESPONSE: Write(
        "ferrule_response",
        _typed(
            "id conversation tenant principal status model created reach cancelled request",
            created=_REAL,
            reach=_INTEGER,
            cancelled=_INTEGER,
        ),
    ),
    Kind.RESPONSE_CHANGE: Write(
        "ferrule_response",
        _typed("status reach cancelled id was", reach=_INTEGER, cancelled=_INTEGER),
        where={"id": "id = {}", "was": "status = {}"},
        is_certain=True,
    ),
    Kind.EVENT_REMOVAL: Write(
        "ferrule_event",
        _typed("born response", born=_INTEGER),
        where={"born": "born = {}", "response": "response = {}"},
        removes=True,
    ),
    Kind.OLD_EVENT_REMOVAL: Write(
        "ferrule_response_event", _typed("response"), where={"response": "response = {}"}, removes=True
    ),
    Kind.RESPONSE_REMOVAL: Write("ferrule_response", _typed("id"), where={"id": "id = {}"}, removes=True),
    Kind.EVENT: Write(
        "ferrule_event",
        _typed("born response first many data", born=_INTEGER, first=_INTEGER, many=_INTEGER),
        key=("response", "first", "born"),
        # Only a step whose answer was lost, and that is sent again, finds its own row.
        replaces=_replaced("many data"),
    ),
    Kind.SELECTION: Write(
        "ferrule_selection",
        _typed(
            "conversation place tenant principal at model offer demanded is_required is_unanswered",
            at=_REAL,
            is_required=_INTEGER,
            is_unanswered=_INTEGER,
        ),
        key=("conversation", "place"),
        replaces=_replaced("at model offer demanded is_required is_unanswered"),
    ),
    Kind.PICK: Write(
        "ferrule_pick",
        _typed(
            "conversation selection number fingerprint call_id fate wrote is_retried is_repeated",
            number=_INTEGER,
            is_retried=_INTEGER,
            is_repeated=_INTEGER,
        ),
        key=("conversation", "selection", "number"),
        replaces=_replaced("fingerprint call_id fate wrote is_retried is_repeated"),
    ),
    Kind.PICK_REMOVAL: Write(
        "ferrule_pick",
        _typed("conversation selection number", number=_INTEGER),
        where={"conversation": "conversation = {}", "selection": "selection = {}", "number": "number >= {}"},
        removes=True,
    ),
    Kind.CONTINUATION: Write(
        "ferrule_continuation",
        _typed(
            "conversation tenant principal generation due_at attempts status error",
            generation=_INTEGER,
            due_at=_REAL,
            attempts=_INTEGER,
        ),
        key=("conversation",),
        # Each further decision starts a new generation.
        replaces={"generation": "ferrule_continuation.generation + 1", **_replaced("due_at attempts status error")},
    ),
    Kind.REQUEST: Write(
        "ferrule_request",
        _typed("answer tenant principal api body_sha256 idempotency_key begun_at request", begun_at=_REAL),
    ),
    Kind.AUDIT: Write(
        "ferrule_audit",
        _typed(
            "conversation seq at kind call_id approval decided_by epoch detail previous hash born",
            seq=_INTEGER,
            at=_REAL,
            epoch=_INTEGER,
            born=_INTEGER,
        ),
    ),
}
