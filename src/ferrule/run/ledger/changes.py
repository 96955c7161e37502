"""How each change is made in a transition. Independent of the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ferrule.run.ledger import approvals, calls, conversations, replies
from ferrule.run.ledger.approval_terms import ApprovalTerms
from ferrule.run.ledger.change import (
    Approve,
    AskApproval,
    Change,
    Deny,
    FinishCall,
    NoteTask,
    ProposeCall,
    RecordReply,
    RefuseCall,
    Release,
    SaveState,
    StartCall,
)
from ferrule.run.ledger.tool_usage import offer_id
from ferrule.run.ledger.transaction import Transaction
from ferrule.run.ledger.transition import Transition


def make_changes(transition: Transition, changes: Sequence[Change]) -> Transaction[tuple[Any, ...]]:
    """Make changes one after another; each sees those before it. Returns the result of each."""
    results: list[Any] = []
    for change in changes:
        transition.now = float(change.at)
        results.append((yield from _make(transition, change)))
    return tuple(results)


def _make(transition: Transition, change: Change) -> Transaction[Any]:
    match change:
        case SaveState():
            transition.save(change.update)
            return transition.record.version
        case RecordReply():
            return replies.record_reply(transition, change.reply, offer_id(change.reply.tool_usage))
        case ProposeCall():
            return (
                yield from calls.propose(
                    transition, change.claim, change.side_effects, change.needs_approval, is_new=change.is_new
                )
            )
        case StartCall():
            return (yield from calls.start(transition, change.claim, change.approval))
        case NoteTask():
            return (yield from calls.note_task(transition, change.call_id, change.task))
        case FinishCall():
            return (yield from calls.finish(transition, change.call_id, change.outcome))
        case RefuseCall():
            return (yield from calls.refuse(transition, change.call_id, change.why))
        case AskApproval():
            ask = (change.approval, change.call_id, change.expires, change.terms)
            return (yield from approvals.request_approval(transition, *ask))
        case Approve():
            how = (change.approval, change.by, change.arguments, "", ApprovalTerms())
            return (yield from approvals.approve(transition, *how))
        case Deny():
            return (yield from approvals.deny(transition, change.approval, change.by, change.why))
        case Release():
            return conversations.release(transition)
