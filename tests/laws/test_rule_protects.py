"""Law 4: a random walk under the real mask parses to calls that an independent validator accepts."""

from __future__ import annotations

import json
import random
from functools import cache

import jsonschema
import llguidance
import pytest

from ferrule import Reply, ToolChoice
from ferrule.formats import all_formats, parse
from ferrule.rules.lark import emit_lark
from ferrule.wire.format import Format
from ferrule.wire.rule_builder import bind
from laws.replies import TOOLS
from rules.vocabularies import Vocabulary, tokenizer
from rules.walks import walk

FORMATS = all_formats()
CHOICES = {
    "auto": ToolChoice.auto(),
    "required": ToolChoice.required(),
    "one": ToolChoice.one("get_weather"),
    "allowed": ToolChoice.allowed(["get_weather", "ping"]),
}
SCHEMAS = {tool.name: jsonschema.Draft202012Validator(tool.parameters) for tool in TOOLS}


@cache
def matcher_of(name: str, choice: str, vocabulary: str) -> tuple[Vocabulary, llguidance.LLMatcher]:
    tokens, llg_tokenizer = tokenizer(vocabulary)
    grammar = emit_lark(bind(FORMATS[name], TOOLS, CHOICES[choice]), tokens.specials)
    return tokens, llguidance.LLMatcher(llg_tokenizer, llguidance.LLMatcher.grammar_from_lark(grammar), log_level=0)


def repeats_a_key(value: object) -> bool:
    """Whether a value is JSON that could not be read because an object in it has a duplicate key."""
    try:
        json.loads(str(value), object_pairs_hook=_different_keys)
    except KeyError:
        return True
    except ValueError:
        return False
    return False


def _different_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(dict(pairs)) < len(pairs):
        raise KeyError
    return dict(pairs)


def violation(form: Format, choice: str, reply: Reply) -> str:
    """What is wrong with a finished walk, if anything."""
    if reply.incomplete:
        # No target's grammar can ensure that keys which the schema does not list differ from each other.
        return "" if any("occurs twice" in note.message for note in reply.diagnostics) else "a call is not complete"
    if choice != "auto" and choice != "allowed" and not reply.calls:
        return "no call"
    for call in reply.calls:
        if call.name not in {tool.name for tool in CHOICES[choice].select_tools(TOOLS)}:
            return f"{call.name} was not allowed"
        faults = SCHEMAS[call.name].iter_errors(call.arguments)
        # A value between tags that cannot be read because of a duplicate key is passed on as a string.
        messages = [error.message for error in faults if not repeats_a_key(error.instance)]
        if messages:
            return messages[0]
    return ""


@pytest.mark.parametrize("name", FORMATS)
def test_a_senseless_walk_makes_only_valid_calls(name: str) -> None:
    rng = random.Random(name)
    form = FORMATS[name]
    finished = 0
    for choice in CHOICES:
        vocabulary, matcher = matcher_of(name, choice, "bytes")
        for _ in range(4):
            result = walk(vocabulary, matcher, rng)
            assert not result.problem, result
            if result.is_finished:
                finished += 1
                reply = parse(form, result.text, TOOLS)
                assert not violation(form, choice, reply), f"{violation(form, choice, reply)}: {result.text!r}"
    assert finished, "no walk came to an end"
