"""Law 3 for vLLM and SGLang: xgrammar itself admits every rendered reply that the choice allows, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any, TypeGuard

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule import JsonSchema, Reasoning, Reply, Text, ToolCall, ToolChoice, ToolDefinition, UnrenderableError
from ferrule.formats import all_formats, render
from ferrule.rules.rule import OneOf, Prose, Raw, Repeat, Rule, RuleNode, Seq, Shared
from ferrule.rules.rule import Text as Exactly
from ferrule.rules.structural_tag import emit_structural_tag
from ferrule.wire.format import Format
from ferrule.wire.rule_builder import bind
from lab.paths import CACHE
from lab.workers import Worker
from laws.cuts import two_calls
from laws.replies import TOOLS, all_strings, notations, replies
from laws.test_rule_admits import allowed_reply, holds_a_marker
from laws.test_rule_protects import CHOICES
from rules import test_additional_properties as additional
from sampling import sampled

pytestmark = pytest.mark.oracle

FORMATS = all_formats()
CITY = "Zanzibar"
# Tools that TOOLS does not contain, so that a wrong call can be rendered.
WRONG_TOOLS = (
    ToolDefinition.build("get_weather")
    .parameter("city", JsonSchema.string())
    .parameter("days", JsonSchema.string())
    .done(),
    ToolDefinition.build("set_weather").parameter("city", JsonSchema.string()).done(),
)
WRONG_CALLS = {
    "an unknown tool": ("set_weather", {"city": CITY}),
    "a missing argument": ("get_weather", {"days": "2"}),
    "a wrong type": ("get_weather", {"city": CITY, "days": "soon"}),
}


@pytest.fixture(scope="module")
def xgrammar() -> Iterator[Worker]:
    interpreter = CACHE / "venvs" / "xgrammar" / "bin" / "python"
    with Worker(interpreter, "lab.peers.xgrammar_worker", hint="run scripts/setup-oracles") as worker:
        yield worker


@cache
def rule_of(name: str, choice: str) -> Rule:
    return bind(FORMATS[name], TOOLS, CHOICES[choice])


@cache
def tag_of(name: str, choice: str) -> dict[str, Any]:
    return emit_structural_tag(rule_of(name, choice))


def admit_texts(worker: Worker, tag: dict[str, Any], *texts: str) -> list[bool]:
    answer = worker.ask({"tag": tag, "texts": texts})
    assert answer["error"] is None, answer["error"]
    return answer["accepted"]


def single_call(form: Format, tool: str, arguments: dict[str, Any], tools: tuple[ToolDefinition, ...]) -> str:
    return render(form, Reply((ToolCall.of(tool, arguments, id=form.ids.sample(tool, 0)),)), tools)


def raw_closers(node: RuleNode) -> tuple[str, ...]:
    """What the first raw value of a rule excludes."""
    match node:
        case Raw(_, _, excludes):
            return excludes
        case Seq(parts) | OneOf(parts):
            return next(filter(None, map(raw_closers, parts)), ())
        case Repeat(inner) | Shared(inner):
            return raw_closers(inner)
        case _:
            return ()


def is_admissible(reply: Reply | None, form: Format) -> TypeGuard[Reply]:
    """Whether the rule is supposed to admit a reply: it has text or calls, and no broken markup in its text.

    An unquoted key that is more than a name is not admitted either.
    """
    if reply is None or all(isinstance(part, Reasoning) for part in reply.parts):
        return False
    has_bare_keys = any(notation.has_bare_keys for notation in notations(form.calls.call))
    if has_bare_keys and not all(
        text.isidentifier() and text.isascii() for kind, text in all_strings(reply) if kind == "key"
    ):
        return False
    return not holds_a_marker(form, reply)


@pytest.mark.parametrize("name, choice", sampled("xgrammar two calls", FORMATS, CHOICES, 1))
def test_two_calls_with_hard_values_are_admitted(xgrammar: Worker, name: str, choice: str) -> None:
    form = FORMATS[name]
    reply = allowed_reply(form, choice, two_calls(form))
    assert reply is not None
    if reply.calls and not isinstance(reply.parts[-1], ToolCall):
        reply = replace(reply, parts=tuple(part for part in reply.parts if not isinstance(part, Text)))
    assert admit_texts(xgrammar, tag_of(name, choice), render(form, reply, TOOLS)) == [True]


@pytest.mark.parametrize("name, choice", sampled("xgrammar rendered", FORMATS, CHOICES, 1))
@settings(max_examples=10)
@given(data=st.data())
def test_what_is_rendered_is_admitted(xgrammar: Worker, name: str, choice: str, data: st.DataObject) -> None:
    form = FORMATS[name]
    reply = allowed_reply(form, choice, data.draw(replies(form)))
    if not is_admissible(reply, form):
        return
    try:
        text = render(form, reply, TOOLS)
    except UnrenderableError:
        return
    assert admit_texts(xgrammar, tag_of(name, choice), text) == [True], text


@pytest.mark.parametrize("name, choice", sampled("xgrammar wrong calls", FORMATS, ["required", "one"], 1))
def test_a_call_that_does_not_fit_is_not_admitted(xgrammar: Worker, name: str, choice: str) -> None:
    texts = [single_call(FORMATS[name], *wrong, WRONG_TOOLS) for wrong in WRONG_CALLS.values()]
    right = single_call(FORMATS[name], "get_weather", {"city": CITY, "days": 2}, TOOLS)
    accepted = admit_texts(xgrammar, tag_of(name, choice), right, *texts)
    assert accepted == [True, *(False for _ in WRONG_CALLS)], list(WRONG_CALLS)


@pytest.mark.parametrize("name", FORMATS)
def test_a_call_that_does_not_fit_is_not_admitted_as_text_either(xgrammar: Worker, name: str) -> None:
    texts = [single_call(FORMATS[name], *wrong, WRONG_TOOLS) for wrong in WRONG_CALLS.values()]
    assert admit_texts(xgrammar, tag_of(name, "auto"), *texts) == [False for _ in texts], list(WRONG_CALLS)


@pytest.mark.parametrize("name", FORMATS)
def test_only_the_tool_that_must_be_called_is_admitted(xgrammar: Worker, name: str) -> None:
    other = single_call(FORMATS[name], "search.files-2", {"query": CITY}, TOOLS)
    assert admit_texts(xgrammar, tag_of(name, "one"), other) == [False]
    assert admit_texts(xgrammar, tag_of(name, "required"), other) == [True]


@pytest.mark.parametrize("name", [name for name in FORMATS if raw_closers(rule_of(name, "one").start)])
def test_a_raw_value_never_holds_what_ends_it(xgrammar: Worker, name: str) -> None:
    right = single_call(FORMATS[name], "get_weather", {"city": CITY}, TOOLS)
    texts = [right.replace(CITY, f"a{closer}b") for closer in raw_closers(rule_of(name, "one").start)]
    assert admit_texts(xgrammar, tag_of(name, "one"), right, *texts) == [True, *(False for _ in texts)], texts


@pytest.mark.parametrize("choice", CHOICES)
def test_a_quoted_value_may_contain_what_ends_the_call(xgrammar: Worker, choice: str) -> None:
    text = single_call(FORMATS["minicpm5"], "get_weather", {"city": "a</function>b"}, TOOLS)
    assert admit_texts(xgrammar, tag_of("minicpm5", choice), text) == [choice != "none"]


@pytest.mark.parametrize("name", [name for name in FORMATS if rule_of(name, "auto").triggers])
def test_what_opens_a_call_must_become_one(xgrammar: Worker, name: str) -> None:
    (trigger,) = rule_of(name, "auto").triggers
    texts = [f"{trigger.strip()} is how a call opens", f"Well. {trigger.strip()}"]
    assert admit_texts(xgrammar, tag_of(name, "auto"), *texts) == [False, False]


TREE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "unit": {"enum": ["C", "F", 1]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 3}, "minItems": 1, "maxItems": 2},
        "below": {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
    },
    "required": ["unit"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "arguments, is_right",
    [
        ('{"unit": "C"}', True),
        ('{"unit": 1, "tags": ["a", "é😀\\n"], "below": {"unit": "F", "below": null}}', True),
        ('{"unit": "K"}', False),
        ('{"unit": "C", "tags": []}', False),
        ('{"unit": "C", "tags": ["a", "b", "c"]}', False),
        ('{"unit": "C", "tags": ["abcd"]}', False),
        ('{"unit": "C", "below": {"tags": ["a"]}}', False),
        ('{"unit": "C", "other": 1}', False),
        ('{"tags": ["a"], "unit": "C"}', False),
        ('{"unit":"C"}', False),
        ('{ "unit": "C" }', False),
        ('{"unit": "C",\n"tags": ["a"]}', False),
    ],
)
def test_a_schema_is_enforced_in_the_form_that_is_rendered(xgrammar: Worker, arguments: str, is_right: bool) -> None:
    tools = (ToolDefinition("grow", parameters=TREE),)
    tag = emit_structural_tag(bind(FORMATS["hermes"], tools, ToolChoice.required()))
    text = f'<tool_call>\n{{"name": "grow", "arguments": {arguments}}}\n</tool_call>'
    assert admit_texts(xgrammar, tag, text) == [is_right]


def test_a_marker_that_overlaps_itself_is_found_at_its_first_position(xgrammar: Worker) -> None:
    tag = emit_structural_tag(Rule(Seq((Prose(("```",)), Exactly("```json")))))
    assert admit_texts(xgrammar, tag, "a```json", "``a```json", "a````json") == [True, True, False]


@pytest.mark.parametrize("name, case", additional.CASES)
def test_xgrammar_admits_members_that_the_schema_does_not_list(xgrammar: Worker, name: str, case: str) -> None:
    schema, fitting, wrong = additional.SCHEMAS[case]
    texts = [additional.text_of(name, schema, arguments) for arguments in fitting]
    texts += [additional.text_of(name, {"type": "object"}, arguments) for arguments in wrong]
    accepted = admit_texts(xgrammar, emit_structural_tag(additional.rule_of(name, schema)), *texts)
    assert accepted == [True] * len(fitting) + [False] * len(wrong), texts
