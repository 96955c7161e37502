"""What the measurements do with a ledger itself, and not with a conversation: fill it, read its lists, record a call.

These are the only functions that know methods of a ledger that may change from version to version; a method that a
ledger does not have is not used. Conversations are made by the ledger itself, because its tables differ between
versions. Of ten, one waits for an approval; of a hundred, one is a stored response under way, whose process lives; half
of them have a trace.
"""

import asyncio
import itertools
import json
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from inspect import signature
from typing import Any, Final

from ferrule import ToolCall
from ferrule.ledger import ApprovalState
from lab.ledger_script import ANN, ScriptedEngine, leave_pending, open_conversation, pay

_THINGS: Final = tuple(
    f"{colour} {thing}" for colour in ("blue", "green", "grey") for thing in ("lamp", "chair", "cup")
)
_RARE: Final = "harpsichord"
_RARE_EVERY: Final = 997
_TEXT: Final = "the text of the user"
_FOREVER: Final = 1e9
"""The lease of an answer under way, in seconds: its process lives for as long as the measurement takes."""
PAGE: Final = 50
_BATCH: Final = 500


def script_of(number: int) -> str:
    """The user's message in a conversation, which is also what its turn does."""
    what = _RARE if number % _RARE_EVERY == 1 else _THINGS[number % len(_THINGS)]
    verb = "pay 1" if is_waiting(number) else "answer"
    return f"{verb} order {number} of a {what}, please, and tell me when it arrives."


def is_waiting(number: int) -> bool:
    """Whether a conversation waits for an approval."""
    return number % 10 == 3


def is_under_way(number: int) -> bool:
    """Whether a conversation is a stored response that has not ended."""
    return number % 100 == 7


async def fill(ledger: Any, engine: ScriptedEngine, first: int, count: int, width: int) -> dict[str, Any]:
    """Add the conversations from number `first` on, so many at once."""
    numbers = iter(range(first, first + count))
    started = time.process_time()
    add_quickly = await _quick_way(ledger, engine)

    async def keep_adding() -> None:
        for number in numbers:
            if is_under_way(number) and hasattr(ledger, "add_response"):
                await _add_response(ledger, number)
            elif add_quickly is not None:
                await add_quickly(number)
            else:
                await _add(ledger, engine, number)

    await asyncio.gather(*(keep_adding() for _ in range(width)))
    await _add_traces(ledger, range(first, first + count))
    return {"cpu": time.process_time() - started}


async def _add(ledger: Any, engine: ScriptedEngine, number: int) -> None:
    conversation = await open_conversation(ledger, _id(number), engine, leave_pending)
    await conversation.send_message(script_of(number))
    await conversation.close()


async def call_recorder(ledger: Any, id: str) -> Callable[[], Awaitable[None]] | None:
    """A function that records one call in a conversation of its own: intent, and then outcome. None if unknown how.

    A ledger that applies several changes at once records the intent as a conversation does, in one step.
    """
    if not all(hasattr(ledger, name) for name in ("propose", "start", "finish")):
        return None
    from ferrule.core.outcome import Answered
    from ferrule.run.ledger.claim import Claim

    epoch = (await ledger.open(id, ANN.principal, "bench", _FOREVER, now=time.time())).epoch
    numbers = itertools.count(1)
    if hasattr(ledger, "apply"):
        from ferrule.run.ledger.change import FinishCall, ProposeCall, StartCall

        async def record_in_two_steps() -> None:
            number, now = next(numbers), time.time()
            claim = Claim.of(id, ANN.principal, _call(number), pay.definition)
            proposal = ProposeCall(claim=claim, side_effects=True, needs_approval=False, is_new=True, at=now)
            _, is_started = await ledger.apply(id, epoch, (proposal, StartCall(claim=claim, at=now)))
            assert is_started
            outcome = Answered(f"order {number} is paid")
            await ledger.apply(id, epoch, (FinishCall(call_id=claim.call_id, outcome=outcome, at=time.time()),))

        return record_in_two_steps

    async def record() -> None:
        number = next(numbers)
        claim = Claim.of(id, ANN.principal, _call(number), pay.definition)
        await ledger.propose(claim, epoch, side_effects=True, needs_approval=False, now=time.time())
        assert await ledger.start(claim, epoch, now=time.time())
        await ledger.finish(id, claim.call_id, epoch, Answered(f"order {number} is paid"), now=time.time())

    return record


def _call(number: int) -> ToolCall:
    return ToolCall.of("pay", {"order": number, "note": "for the order of last Tuesday"}, id=f"{number}.0")


async def _quick_way(ledger: Any, engine: ScriptedEngine) -> Callable[[int], Awaitable[None]] | None:
    """A way to add a conversation with few transactions, for ledgers that save a whole conversation; None for others.

    What is saved is the state that two real conversations had after their turns, with another text.
    """
    if not all(hasattr(ledger, name) for name in ("save", "propose", "request_approval")):
        return None
    from ferrule.run.ledger.claim import Claim

    states: dict[bool, str] = {}
    for is_pending, number in ((True, 3), (False, 4)):
        conversation = await open_conversation(ledger, f"model-{uuid.uuid4().hex}", engine, leave_pending)
        await conversation.send_message(script_of(number))
        states[is_pending] = json.dumps(conversation.save()).replace(script_of(number), _TEXT)
        await conversation.close()

    async def add(number: int) -> None:
        # The lease is so short that nobody owns the conversation afterwards.
        now, is_pending = time.time(), is_waiting(number)
        epoch = (await ledger.open(_id(number), ANN.principal, "bench", 1e-6, now=now)).epoch
        state = json.loads(states[is_pending].replace(_TEXT, script_of(number)))
        await ledger.save(_id(number), epoch, state, now=now)
        if is_pending:
            claim = Claim.of(_id(number), ANN.principal, _call(number), pay.definition)
            await ledger.propose(claim, epoch, side_effects=True, needs_approval=True, now=now)
            await ledger.request_approval(_id(number), claim.call_id, epoch, expires=now + _FOREVER, now=now)

    return add


def _id(number: int) -> str:
    return f"conversation-{number}"


async def _add_response(ledger: Any, number: int) -> None:
    from ferrule.run.ledger.ledger import ResponseRecord, ResponseStatus

    now, owner = time.time(), ANN.principal
    record = await ledger.open(_id(number), owner, "bench", _FOREVER, now=now)
    response = ResponseRecord(
        *(f"resp_{number}", _id(number), owner.tenant, owner.name, ResponseStatus.IN_PROGRESS),
        model="m",
        created=now,
        reach=0,
        is_cancelled=False,
        request_text="{}",
    )
    await ledger.add_response(response, record.epoch, ['{"type":"response.created"}'], now=now)


async def _add_traces(ledger: Any, numbers: range) -> None:
    from ferrule.run.ledger.trace import TracedRequest, TraceStatus

    traced = [number for number in numbers if number % 2]
    for start in range(0, len(traced), _BATCH):
        await ledger.record_requests(
            [
                TracedRequest(
                    id=f"request-{number}",
                    tenant=ANN.principal.tenant,
                    principal=ANN.principal.name,
                    at=time.time(),
                    api="/v1/responses",
                    seconds=0.5,
                    status=TraceStatus.COMPLETED,
                    model="m",
                    conversation=_id(number),
                    title=script_of(number)[:40],
                    messages_text="[]",
                )
                for number in traced[start : start + _BATCH]
            ]
        )


LISTS: Final = (
    "sweep",
    "page of approvals",
    "page of conversations",
    "page of traces",
    "search, a rare word",
    "search, no match",
)
OPENING, TURN = "opening a conversation", "turn with an effect"


SEARCHES: Final = {
    "search, a rare word": _RARE,
    "search, no match": "xylophone",
    "search, a frequent word": "order",
    "search, two words": f"{_RARE} tuesday",
    "search, two frequent words": "blue order",
    "search, Chinese": "天气",
}
PAGES: Final = (
    *("sweep", "sweep of continuations", "page of approvals", "page of decided approvals", "page of all approvals"),
    *("last page of approvals", "page of conversations", "page of traces", *SEARCHES, "search of traces, a rare word"),
)
"""What `lab.ledger_pages` reads."""


async def list_once(ledger: Any, name: str, tenant: str) -> Sequence[Any]:
    """Read one list of a ledger: a page of at most fifty."""
    from ferrule.run.ledger.search import ConversationQuery
    from ferrule.run.ledger.trace import TraceQuery

    match name:
        case "sweep":
            return await ledger.unfinished_responses(16, now=time.time())
        case "sweep of continuations":
            return await ledger.due_continuations(16, now=time.time())
        case "page of approvals" if "limit" in signature(ledger.approvals_of).parameters:
            return await ledger.approvals_of(tenant, ApprovalState.PENDING, limit=PAGE)
        case "page of approvals":
            # A ledger without pages reads all of them, and its users cut.
            return (await ledger.approvals_of(tenant, ApprovalState.PENDING))[:PAGE]
        case "page of decided approvals" | "page of all approvals" | "last page of approvals":
            return await _approval_page(ledger, name, tenant)
        case "page of traces":
            return await ledger.traces_of(tenant, TraceQuery(limit=PAGE))
        case "search of traces, a rare word":
            return await ledger.traces_of(tenant, TraceQuery(limit=PAGE, text=_RARE))
        case _:
            return await ledger.conversations_of(tenant, ConversationQuery(limit=PAGE, text=SEARCHES.get(name, "")))


async def _approval_page(ledger: Any, name: str, tenant: str) -> Sequence[Any]:
    if not hasattr(ledger, "search_approvals"):
        approvals = await ledger.approvals_of(tenant)
        matching = [one for one in approvals if one.decided_at is not None or "decided" not in name]
        return matching[-PAGE:] if "last" in name else matching[:PAGE]
    from ferrule.run.ledger.search import ApprovalQuery

    status, is_last = ("decided" if "decided" in name else ""), "last" in name
    return await ledger.search_approvals(
        tenant, ApprovalQuery(status=status, limit=PAGE, is_newest_first=is_last, now=time.time())
    )


async def rare_conversations(ledger: Any, tenant: str) -> list[str]:
    """The ids of some conversations that are spread over the ledger."""
    return [one.id for one in await list_once(ledger, "search, a rare word", tenant)]
