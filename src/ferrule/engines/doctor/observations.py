"""Observers: what the responses of one run show about a feature. Must not send requests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ferrule.core.event import TextDelta
from ferrule.core.json_text import loads
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.lenient_json import count, mapping, text
from ferrule.engines.doctor.client import ProbeResponse
from ferrule.engines.doctor.verdicts import Observation, RunOutcome, cutoff, no_evidence, success, violation
from ferrule.schema.checker import checker_for
from ferrule.wire.drift import DriftReader

Observer = Callable[[Sequence[ProbeResponse]], Observation]
_NO_CALL = "made no call"


def unless_refused(observer: Callable[[ProbeResponse], Observation]) -> Observer:
    """Make an observer of one response; a status of 4xx is a refusal, and any other failure is no evidence."""

    def observe(responses: Sequence[ProbeResponse]) -> Observation:
        (response,) = responses
        return refusal_of(response) or observer(response)

    return observe


def refusal_of(response: ProbeResponse) -> Observation | None:
    if not response.refusal:
        return None
    detail = f"{response.status}, {response.refusal}" if response.status else response.refusal
    return Observation(RunOutcome.REFUSAL, detail) if 400 <= response.status < 500 else no_evidence(f"failed: {detail}")


def _missing_call(response: ProbeResponse) -> Observation:
    """Observe a response without a call where one was required."""
    if not response.is_cut_off:
        return violation(f"{_NO_CALL} and said {response.reply.text.strip()[:40]!r}")
    text_ = response.reply.text.strip()
    if text_:
        return cutoff(f"wrote {text_[:40]!r} and more until the limit, and no call")
    return no_evidence("was cut off while it reasoned")


def some_call(response: ProbeResponse) -> Observation:
    """Expect a complete call."""
    if response.reply.calls:
        return success(f"called {response.reply.calls[0].name}")
    return cutoff("started a call that was not completed") if response.calls else _missing_call(response)


def only_calls_of(*names: str) -> Callable[[ProbeResponse], Observation]:
    """Expect calls of these tools only; a name counts even if its arguments were cut off."""

    def observe(response: ProbeResponse) -> Observation:
        others = [call.name for call in response.calls if call.name not in names]
        if others:
            return violation(f"called {others[0]} instead")
        return success(f"called {response.calls[0].name}") if response.calls else _missing_call(response)

    return observe


def call_is_read(tool: ToolDefinition) -> Callable[[ProbeResponse], Observation]:
    """Expect a call that the model makes to be returned as a call, and not as text in whichever spelling it used."""

    def observe(response: ProbeResponse) -> Observation:
        if response.calls:
            return success("returned it as a call")
        reader = DriftReader(None, [tool])
        reader.read([TextDelta(response.reply.text)])
        reader.close()
        spelling = next((drift.rpartition(" ")[2] for drift in reader.drifted.values()), "")
        return violation(f"returned it as text: the model writes {spelling}") if spelling else no_evidence(_NO_CALL)

    return observe


def no_call(response: ProbeResponse) -> Observation:
    return violation(f"called {response.calls[0].name}") if response.calls else success("made none")


def one_call(response: ProbeResponse) -> Observation:
    if len(response.calls) > 1:
        return violation(f"made {len(response.calls)} calls")
    return success("made one") if response.reply.calls and not response.is_cut_off else no_evidence(_NO_CALL)


def arguments_fit(
    schema: Mapping[str, Any], path: str, keywords: Collection[str]
) -> Callable[[ProbeResponse], Observation]:
    """Expect arguments without faults of these keywords at or under the path; other probes cover other faults."""

    def observe(response: ProbeResponse) -> Observation:
        calls = [call for call in response.calls if call.complete or not response.is_cut_off]
        if not calls:
            return no_evidence("was cut off" if response.is_cut_off else _NO_CALL)
        arguments = calls[0].function.arguments
        faults = checker_for(dict(schema)).faults_of_text(arguments)
        matching = [fault for fault in faults if fault.keyword in keywords and fault.path.startswith(path)]
        if matching:
            return violation(f"wrote {arguments}")
        return (
            no_evidence(f"wrote {arguments}, which does not fit for another reason")
            if faults
            else success(f"wrote {arguments}")
        )

    return observe


def text_fits(schema: Mapping[str, Any], *, or_call: bool = False) -> Callable[[ProbeResponse], Observation]:
    """Expect a text that matches the schema."""

    def observe(response: ProbeResponse) -> Observation:
        content = response.reply.text.strip()
        if or_call and response.reply.calls and not content:
            return success(f"called {response.reply.calls[0].name}")
        if response.is_cut_off and content.startswith("{"):
            return no_evidence(f"was cut off after {content[:40]!r}")
        if response.is_cut_off:
            return cutoff(f"wrote {content[:40]!r} and more until the limit")
        faults = checker_for(dict(schema)).faults_of_text(content)
        return violation(f"wrote {content[:60]!r}") if faults else success(f"wrote {content[:60]}")

    return observe


def finish_reason(response: ProbeResponse) -> Observation:
    """Expect the finish reason `tool_calls` for an answer that ends with calls."""
    if not response.reply.calls or response.is_cut_off:
        return no_evidence(_NO_CALL)
    detail = f"ended a call with {response.finish!r}"
    return success(detail) if response.finish == "tool_calls" else violation(detail)


def argument_deltas(response: ProbeResponse) -> Observation:
    """Expect arguments in several chunks."""
    if not response.reply.calls:
        return no_evidence(_NO_CALL)
    pieces = [text(mapping(piece.get("function")).get("arguments")) for piece in response.call_pieces]
    pieces_with_text = sum(1 for piece in pieces if piece)
    return (
        success(f"sent {pieces_with_text} pieces")
        if pieces_with_text > 1
        else violation("sent the arguments in one piece")
    )


def call_ids(response: ProbeResponse) -> Observation:
    """Expect that each call has an id from its first chunk on, that it does not change, and that it is unique."""
    if not response.calls:
        return no_evidence(_NO_CALL)
    ids: dict[int, str] = {}
    for piece in response.call_pieces:
        index, id = count(piece.get("index")), text(piece.get("id"))
        if not ids.setdefault(index, id):
            return violation("sent a call without an id")
        if id and id != ids[index]:
            return violation("changed the id of a call while streaming")
    if len(set(ids.values())) < len(ids):
        return violation("gave two calls the same id")
    return success(f"gave {len(ids)} call{'s' * (len(ids) > 1)} an id each")


def usage_report(response: ProbeResponse) -> Observation:
    usage = [mapping(chunk.get("usage")) for chunk in response.chunks]
    tokens = next((count(one.get("completion_tokens")) for one in reversed(usage) if one), 0)
    return success(f"counted {tokens} tokens") if tokens else violation("did not say how many tokens were used")


def same_when_streamed(responses: Sequence[ProbeResponse]) -> Observation:
    """Compare a streamed response with two that are not streamed; if these two differ, there is no evidence."""
    for response in responses:
        refusal = refusal_of(response)
        if refusal:
            return refusal
    streamed, whole, again = (_calls_and_text(response) for response in responses)
    if whole != again:
        return no_evidence("answered differently to the same request")
    if not responses[1].calls:
        return no_evidence(_NO_CALL)
    return (
        success("gave the same calls and text")
        if streamed == whole
        else violation(f"streamed {streamed}, whole {whole}")
    )


def _calls_and_text(response: ProbeResponse) -> tuple[list[tuple[str, str]], str]:
    return [(call.name, call.function.arguments) for call in response.calls], response.reply.text.strip()


def bad_schema_refusal(responses: Sequence[ProbeResponse]) -> Observation:
    """Expect that an invalid request is refused with a 4xx status, and that the endpoint still answers afterwards.

    The last response is to the same request with a valid schema: if that is refused too, it is not for the schema.
    """
    wrong, after, right = responses
    if after.refusal:
        return violation(f"did not answer after it: {after.refusal}")
    if not wrong.refusal:
        return violation("took a schema with a type that does not exist")
    if right.refusal and 400 <= wrong.status < 500:
        return no_evidence("refused the same request with a valid schema too")
    detail = (
        f"answered {wrong.status} {_error_shape(wrong.refusal)}"
        if wrong.status
        else f"closed the connection: {wrong.refusal}"
    )
    return success(detail) if 400 <= wrong.status < 500 else violation(detail)


def _error_shape(refusal: str) -> str:
    """Describe the error body. A truncated refusal is not JSON any more."""
    try:
        message = mapping(mapping(loads(refusal)).get("error")).get("message")
    except (ValueError, RecursionError):
        message = None
    return f"and said {message!r:.80}" if text(message) else "with an error that does not have the API's shape"
