"""One format in full: its facts, and examples of a call, its results and the tool declarations."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from ferrule.cli.format_facts import FormatFacts, facts_of
from ferrule.core.call import ToolCall, ToolResult
from ferrule.core.ids import IdPolicy
from ferrule.core.json_schema import JsonSchema
from ferrule.core.reply import Reply
from ferrule.core.tool import ToolDefinition
from ferrule.wire.format import PARIS, ROME, Format
from ferrule.wire.prompt import declaration
from ferrule.wire.registry import examples
from ferrule.wire.renderer import render, render_results

_WEATHER = (
    ToolDefinition.build(PARIS.name)
    .description("The weather of the coming days.")
    .parameter("city", JsonSchema.string(), required=True)
    .parameter("days", JsonSchema.integer())
    .done()
)
_CONTENTS = ({"celsius": 21}, {"celsius": 27})
_EXAMPLE_IDS = ("call_{}", "call0000{}", "call00000{}")


@dataclass(frozen=True, slots=True)
class FormatView:
    facts: FormatFacts
    tokens: tuple[str, ...]
    stops: tuple[str, ...]
    example: str
    results: str
    results_role: str
    declaration: str

    def as_dict(self) -> dict[str, object]:
        fields = asdict(self)
        return {**fields.pop("facts"), **fields}


def view_of(format: Format) -> FormatView:
    text, calls = _example(format)
    contents = zip(calls, _CONTENTS, strict=False)
    results = [ToolResult(call.id, call.name, content) for call, content in contents]
    return FormatView(
        facts=facts_of(format),
        tokens=format.tokens,
        stops=format.stops,
        example=text,
        results=render_results(format, results),
        results_role=format.result.role,
        declaration=declaration(format, (_WEATHER,)),
    )


def _example(format: Format) -> tuple[str, list[ToolCall]]:
    """A text with two calls (or as many as the format allows in one turn), and the calls in it."""
    for example in examples():
        if example.format == format.name and example.is_canonical and len(example.reply.calls) > 1:
            return example.text, _with_ids(format.ids, example.reply.calls)
    calls = _with_ids(format.ids, (PARIS, ROME)[: format.calls.max_calls])
    return render(format, Reply(tuple(calls)), (_WEATHER,)), calls


def _with_ids(policy: IdPolicy, calls: tuple[ToolCall, ...]) -> list[ToolCall]:
    return [call if call.id else replace(call, id=_id(policy, call.name, at)) for at, call in enumerate(calls)]


def _id(policy: IdPolicy, name: str, at: int) -> str:
    """An id in the format's form. It is deterministic, so that two outputs can be compared."""
    new_id = policy.make(name, at)
    if new_id == policy.make(name, at):
        return new_id
    return next((id for form in _EXAMPLE_IDS if policy.fits(id := form.format(at + 1), name)), new_id)
