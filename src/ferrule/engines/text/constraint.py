"""TextRules: the rules of a text engine, each made once however many ask for it, and kept by what it was made from.

Must not know prompts, answers or any backend.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ferrule.core.json_text import fingerprint
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.engines.generator import Grammar, ModelFacts, TextGenerator
from ferrule.engines.grammar import grammar_of
from ferrule.engines.text.skip import Skipper, held_steps, worth_of
from ferrule.engines.text.skip_guard import SkipGuard
from ferrule.engines.text.token_text import Tokenizer
from ferrule.rules.cache import ByteCache, RuleKey, rule_key
from ferrule.rules.rule import Rule
from ferrule.rules.skip.steps import Plan
from ferrule.schema.bounds import Bounds, bounded
from ferrule.wire.format import Format
from ferrule.wire.rule_builder import ReasoningMode, bind


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Everything that a rule is made from."""

    request: ToolCallRequest
    tools: Sequence[ToolDefinition]
    schema: dict[str, Any] | None
    """Of the answer itself, where it is bound to one."""
    format: Format
    facts: ModelFacts
    target: str
    reasoning: ReasoningMode
    bounds: Bounds | None
    any_order: bool
    skips: bool

    @property
    def key(self) -> RuleKey:
        parallel, schema = self.request.parallel_tool_calls, self.schema
        rest = f"{parallel}{self.reasoning}{self.bounds!r}{fingerprint(schema) if schema else ''}"
        return rule_key(self.format.name, tuple(self.tools), self.request.choice, self.target, rest)

    def rule(self) -> Rule:
        bounds = self.bounds
        return bind(
            self.format,
            [replace(tool, parameters=bounded(tool.parameters, bounds)) if bounds else tool for tool in self.tools],
            self.request.choice,
            parallel=self.request.parallel_tool_calls,
            reasoning=self.reasoning,
            response_schema=self.schema,
            most_calls=bounds.calls if bounds else None,
            any_order=self.any_order,
        )


@dataclass(frozen=True, slots=True)
class Made:
    """A rule as the backend takes it: in its language, by its fingerprint, and step by step where it is skipped."""

    grammar: Grammar
    rule: str
    skipper: Skipper | None


class TextRules:
    """For one backend."""

    def __init__(self, generator: TextGenerator) -> None:
        self.guard = SkipGuard()
        self._generator = generator
        self._steps = held_steps()
        cut = generator.cut
        self._tokenizer = Tokenizer(partial(cut, is_prompt=False), partial(cut, is_prompt=True), generator.spelled)
        self._held: ByteCache[RuleKey, Made] = ByteCache(lambda held: len(held.grammar.text))
        self._making: dict[tuple[asyncio.AbstractEventLoop, RuleKey], asyncio.Future[Made]] = {}

    async def made(self, wanted: Wanted) -> Made:
        """Made in a thread, for it takes long enough to hold up everybody else; once, however many wait for it."""
        key = wanted.key
        held = self._held.held(key)
        if held is not None:
            return held
        # A future belongs to its loop: who asks from another thread's makes the rule once more.
        loop = asyncio.get_running_loop()
        making = self._making.get((loop, key))
        if making is None:
            making = loop.create_task(asyncio.to_thread(self._make, wanted))
            self._making[loop, key] = making
            making.add_done_callback(lambda made: self._keep(loop, key, made))
        # Whoever goes away must not take it from the others.
        return await asyncio.shield(making)

    def _make(self, wanted: Wanted) -> Made:
        rule = wanted.rule()
        emit = partial(grammar_of, target=wanted.target, facts=wanted.facts)
        skipper = None
        if wanted.skips:
            traits = self._generator.traits
            plan = Plan(rule, wanted.facts.specials, worth_of(traits.going_on), traits.stops)
            skipper = Skipper(plan, emit, self._tokenizer, self.guard, self._steps)
        return Made(emit(rule), rule.fingerprint, skipper)

    def _keep(self, loop: asyncio.AbstractEventLoop, key: RuleKey, made: asyncio.Future[Made]) -> None:
        self._making.pop((loop, key), None)
        if not made.cancelled() and made.exception() is None:
            self._held.get(key, made.result)
