"""Walks of one conversation under a mask that grows: a rule for the tools that are loaded, a reply, one more tool.

The rule of each turn is bound and emitted as engines do, so what earlier turns left in caches takes part. A reply is
judged by the tools that were loaded when it was written: the parser is given all tools, so a call of one that was not
loaded is a call and no text.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

import jsonschema
import llguidance

from ferrule import ToolChoice, ToolDefinition
from ferrule.formats import parse
from ferrule.rules.lark import emit_lark
from ferrule.schema.admission_cache import admit_tools
from ferrule.wire.format import Format
from ferrule.wire.rule_builder import bind
from lab.rule_tools import sample_tools
from laws.replies import TOOLS
from laws.test_rule_protects import repeats_a_key
from rules.vocabularies import tokenizer
from rules.walks import walk

CHOICES = {"auto": ToolChoice.auto(), "required": ToolChoice.required()}


def _prefixed(tools: Sequence[ToolDefinition]) -> Iterator[ToolDefinition]:
    """Tools whose names begin with those of others: the mask must tell them apart."""
    for tool in tools:
        yield ToolDefinition(f"{tool.name}_all", tool.description, tool.parameters)
        yield ToolDefinition(tool.name[:-1], tool.description, tool.parameters)


@cache
def all_tools() -> tuple[ToolDefinition, ...]:
    distinct = {tool.name: tool for tool in (*TOOLS, *sample_tools(4), *_prefixed(TOOLS[:3]))}
    return admit_tools([*distinct.values()])


@cache
def _validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(next(tool.parameters for tool in all_tools() if tool.name == name))


@dataclass(slots=True)
class WalkTally:
    """What the walks of any number of conversations came to."""

    walks: int = 0
    finished: int = 0
    calls: int = 0
    excused: int = 0
    """Replies with a call that is incomplete, because an object in it has a key twice that no schema lists."""
    late: int = 0
    """Calls of a tool that was added during the conversation."""
    violations: list[str] = field(default_factory=list[str])


def converse(
    format: Format, choice: str, vocabulary: str, seed: str, tally: WalkTally, turns: int, walks: int = 1
) -> None:
    """One conversation: `turns` rules, each with one or two more tools than the one before, and walks under each."""
    rng = random.Random(seed)
    order = rng.sample(all_tools(), len(all_tools()))
    first = rng.randint(1, 3)
    count = first
    tokens, llg_tokenizer = tokenizer(vocabulary)
    for turn in range(turns):
        loaded = order[:count]
        grammar = emit_lark(bind(format, loaded, CHOICES[choice]), tokens.specials)
        matcher = llguidance.LLMatcher(llg_tokenizer, llguidance.LLMatcher.grammar_from_lark(grammar), log_level=0)
        for number in range(walks):
            _take(format, choice, tokens, matcher, loaded, first, f"{seed}/{turn}/{number}", rng, tally)
        count = min(len(order), count + rng.randint(1, 2))


def _take(
    format: Format,
    choice: str,
    vocabulary: object,
    matcher: llguidance.LLMatcher,
    loaded: Sequence[ToolDefinition],
    first: int,
    label: str,
    rng: random.Random,
    tally: WalkTally,
) -> None:
    result = walk(vocabulary, matcher, rng)  # pyright: ignore[reportArgumentType]
    tally.walks += 1
    if result.problem:
        tally.violations.append(f"{label}: {result.problem}")
    if not result.is_finished:
        return
    tally.finished += 1
    reply = parse(format, result.text, all_tools())
    names = {tool.name for tool in loaded}
    for call in (*reply.calls, *reply.incomplete):
        if call.name not in names:
            tally.violations.append(f"{label}: {call.name} was not loaded: {result.text!r}")
    if reply.incomplete:
        if any("occurs twice" in note.message for note in reply.diagnostics):
            tally.excused += 1
        else:
            tally.violations.append(f"{label}: a call is not complete: {result.text!r}")
    elif choice == "required" and not reply.calls:
        tally.violations.append(f"{label}: no call: {result.text!r}")
    late = {tool.name for tool in loaded[first:]}
    for call in reply.calls:
        tally.calls += 1
        tally.late += call.name in late
        if call.name in names:
            faults = _validator(call.name).iter_errors(call.arguments)
            messages = [fault.message for fault in faults if not repeats_a_key(fault.instance)]
            tally.violations += [f"{label}: {json.dumps(message)}: {result.text!r}" for message in messages[:1]]
