"""Changes of a conversation, as values. Those that are applied together happen in one step, or none does.

`at` is when it happened. A change may be recorded later than that, with the next one that must not wait.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from ferrule.core.outcome import Outcome
from ferrule.run.ledger.approval_terms import ApprovalTerms
from ferrule.run.ledger.claim import Claim
from ferrule.run.ledger.saved_state import StateUpdate
from ferrule.run.reply_record import ReplyRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveState:
    update: StateUpdate
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordReply:
    reply: ReplyRecord
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeCall:
    """`is_new` says that there is no call in its place, so it need not be looked for."""

    claim: Claim
    side_effects: bool
    needs_approval: bool
    is_new: bool = False
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StartCall:
    claim: Claim
    approval: str = ""
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteTask:
    """A started call has become a task of its server. `task` is how it is found again."""

    call_id: str
    task: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishCall:
    call_id: str
    outcome: Outcome
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RefuseCall:
    call_id: str
    why: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AskApproval:
    """`approval` is the id of the new approval: random, because anyone who guesses it could decide on it."""

    approval: str
    call_id: str
    expires: float
    terms: ApprovalTerms = field(default_factory=ApprovalTerms)
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Approve:
    approval: str
    by: str
    arguments: bytes | None = None
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Deny:
    approval: str
    by: str
    why: str = ""
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    at: float


Change: TypeAlias = (
    SaveState
    | RecordReply
    | ProposeCall
    | StartCall
    | NoteTask
    | FinishCall
    | RefuseCall
    | AskApproval
    | Approve
    | Deny
    | Release
)
