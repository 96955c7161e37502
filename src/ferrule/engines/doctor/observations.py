"""Views: how an answer is looked at for each kind of demand. Each gives what one run showed. Must not ask anything."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ferrule.core.json_text import loads
from ferrule.dialects.lenient_json import count, mapping, text
from ferrule.engines.doctor.client import Answer
from ferrule.engines.doctor.verdicts import Mark, Sight, broken, kept, loose, nothing
from ferrule.schema.checker import checker_for

View = Callable[[Sequence[Answer]], Sight]
_NO_CALL = "made no call"


def unless_refused(view: Callable[[Answer], Sight]) -> View:
    """A view of one answer, where a refusal with a status of 4xx is one, and any other failure shows nothing."""

    def seen(answers: Sequence[Answer]) -> Sight:
        (answer,) = answers
        return refused(answer) or view(answer)

    return seen


def refused(answer: Answer) -> Sight | None:
    if not answer.refusal:
        return None
    told = f"{answer.status}, {answer.refusal}" if answer.status else answer.refusal
    return Sight(Mark.REFUSED, told) if 400 <= answer.status < 500 else nothing(f"failed: {told}")


def _answered_in_words(answer: Answer) -> Sight:
    """No call came where one was demanded."""
    if not answer.is_cut_off:
        return broken(f"{_NO_CALL} and said {answer.reply.text.strip()[:40]!r}")
    written = answer.reply.text.strip()
    if written:
        return loose(f"wrote {written[:40]!r} and more until the limit, and no call")
    return nothing("was cut off while it reasoned")


def some_call(answer: Answer) -> Sight:
    """A call, and not cut off."""
    if answer.reply.calls:
        return kept(f"called {answer.reply.calls[0].name}")
    return loose("began a call that did not come to its end") if answer.calls else _answered_in_words(answer)


def calls_of(*names: str) -> Callable[[Answer], Sight]:
    """A call, and only of these; a name counts also where the arguments were cut off."""

    def seen(answer: Answer) -> Sight:
        others = [call.name for call in answer.calls if call.name not in names]
        if others:
            return broken(f"called {others[0]} instead")
        return kept(f"called {answer.calls[0].name}") if answer.calls else _answered_in_words(answer)

    return seen


def no_call(answer: Answer) -> Sight:
    return broken(f"called {answer.calls[0].name}") if answer.calls else kept("made none")


def one_call(answer: Answer) -> Sight:
    if len(answer.calls) > 1:
        return broken(f"made {len(answer.calls)} calls")
    return kept("made one") if answer.reply.calls and not answer.is_cut_off else nothing(_NO_CALL)


def fits(schema: Mapping[str, Any], place: str, keywords: Collection[str]) -> Callable[[Answer], Sight]:
    """Arguments without a fault of these keywords at this place or under it; other faults are other probes' matter."""

    def seen(answer: Answer) -> Sight:
        calls = [call for call in answer.calls if call.complete or not answer.is_cut_off]
        if not calls:
            return nothing("was cut off" if answer.is_cut_off else _NO_CALL)
        written = calls[0].function.arguments
        faults = checker_for(dict(schema)).faults_of_text(written)
        ours = [fault for fault in faults if fault.keyword in keywords and fault.path.startswith(place)]
        if ours:
            return broken(f"wrote {written}")
        return (
            nothing(f"wrote {written}, which does not fit for another reason") if faults else kept(f"wrote {written}")
        )

    return seen


def fitting_text(schema: Mapping[str, Any], *, or_call: bool = False) -> Callable[[Answer], Sight]:
    """A text that fits the schema."""

    def seen(answer: Answer) -> Sight:
        written = answer.reply.text.strip()
        if or_call and answer.reply.calls and not written:
            return kept(f"called {answer.reply.calls[0].name}")
        if answer.is_cut_off and written.startswith("{"):
            return nothing(f"was cut off after {written[:40]!r}")
        if answer.is_cut_off:
            return loose(f"wrote {written[:40]!r} and more until the limit")
        faults = checker_for(dict(schema)).faults_of_text(written)
        return broken(f"wrote {written[:60]!r}") if faults else kept(f"wrote {written[:60]}")

    return seen


def finish_word(answer: Answer) -> Sight:
    """The API's word for an answer that ends in calls."""
    if not answer.reply.calls or answer.is_cut_off:
        return nothing(_NO_CALL)
    said = f"ended a call with {answer.finish!r}"
    return kept(said) if answer.finish == "tool_calls" else broken(said)


def in_pieces(answer: Answer) -> Sight:
    """Arguments in several pieces."""
    if not answer.reply.calls:
        return nothing(_NO_CALL)
    pieces = [text(mapping(piece.get("function")).get("arguments")) for piece in answer.call_pieces]
    several = sum(1 for piece in pieces if piece)
    return kept(f"sent {several} pieces") if several > 1 else broken("sent the arguments in one piece")


def good_ids(answer: Answer) -> Sight:
    """Each call has an id from its first piece on, keeps it, and shares it with no other."""
    if not answer.calls:
        return nothing(_NO_CALL)
    ids: dict[int, str] = {}
    for piece in answer.call_pieces:
        index, id = count(piece.get("index")), text(piece.get("id"))
        if not ids.setdefault(index, id):
            return broken("sent a call without an id")
        if id and id != ids[index]:
            return broken("changed the id of a call on the way")
    if len(set(ids.values())) < len(ids):
        return broken("gave two calls the same id")
    return kept(f"gave {len(ids)} call{'s' * (len(ids) > 1)} an id each")


def usage_told(answer: Answer) -> Sight:
    usage = [mapping(chunk.get("usage")) for chunk in answer.chunks]
    told = next((count(one.get("completion_tokens")) for one in reversed(usage) if one), 0)
    return kept(f"counted {told} tokens") if told else broken("did not say how many tokens were used")


def same_in_pieces(answers: Sequence[Answer]) -> Sight:
    """Streamed, whole, and whole once more: that one differs from itself shows nothing about streaming."""
    for answer in answers:
        sight = refused(answer)
        if sight:
            return sight
    streamed, whole, again = (_sum(answer) for answer in answers)
    if whole != again:
        return nothing("answered differently to the same request")
    if not answers[1].calls:
        return nothing(_NO_CALL)
    return kept("gave the same calls and text") if streamed == whole else broken(f"streamed {streamed}, whole {whole}")


def _sum(answer: Answer) -> tuple[list[tuple[str, str]], str]:
    return [(call.name, call.function.arguments) for call in answer.calls], answer.reply.text.strip()


def well_refused(answers: Sequence[Answer]) -> Sight:
    """A wrong request is refused as such, and the endpoint goes on."""
    wrong, after = answers
    if after.refusal:
        return broken(f"did not answer any more after it: {after.refusal}")
    if not wrong.refusal:
        return broken("took a schema with a type that does not exist")
    told = f"answered {wrong.status} {_shape(wrong.refusal)}" if wrong.status else f"broke off: {wrong.refusal}"
    return kept(told) if 400 <= wrong.status < 500 else broken(told)


def _shape(refusal: str) -> str:
    """The words of a refusal may have been cut short, and then it is no JSON any more."""
    try:
        said = mapping(mapping(loads(refusal)).get("error")).get("message")
    except (ValueError, RecursionError):
        said = None
    return f"and said {said!r:.80}" if text(said) else "with an error that has not the API's shape"
