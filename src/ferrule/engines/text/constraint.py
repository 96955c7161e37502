"""ConstraintCache: builds and caches the grammars of a text engine.

Each constraint is built once, even if many requests need it at the same time. Must not know prompts, answers or any
backend.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ferrule.core.byte_cache import ENTRY_BYTES, ByteCache
from ferrule.core.json_text import fingerprint
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.engines.generator import Grammar, ModelFacts, TextGenerator
from ferrule.engines.grammar import grammar_of
from ferrule.engines.text.skip import SkipGenerator, min_forced_length, new_step_cache
from ferrule.engines.text.skip_guard import SkipGuard
from ferrule.engines.text.token_text import Tokenizer
from ferrule.errors import SchemaError
from ferrule.rules.cache import RuleKey, rule_key
from ferrule.rules.rule import Rule
from ferrule.rules.skip.steps import SkipPlan
from ferrule.wire.format import Format
from ferrule.wire.rule_builder import ReasoningMode, bind


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintSpec:
    """Everything that determines a constraint."""

    request: ToolCallRequest
    tools: Sequence[ToolDefinition]
    schema: dict[str, Any] | None
    """The schema of the answer's text, if there is one."""
    format: Format
    facts: ModelFacts
    target: str
    reasoning: ReasoningMode
    any_order: bool
    skips: bool

    @property
    def key(self) -> RuleKey:
        parallel, schema = self.request.parallel_tool_calls, self.schema
        rest = f"{parallel}{self.reasoning}{fingerprint(schema) if schema else ''}"
        return rule_key(self.format.name, tuple(self.tools), self.request.choice, self.target, rest)

    def rule(self) -> Rule:
        return bind(
            self.format,
            self.tools,
            self.request.choice,
            parallel=self.request.parallel_tool_calls,
            reasoning=self.reasoning,
            response_schema=self.schema,
            any_order=self.any_order,
        )


@dataclass(frozen=True, slots=True)
class Constraint:
    """A rule as the backend uses it: the grammar, the rule's fingerprint, and the skip generator if skipping is on."""

    grammar: Grammar
    rule_fingerprint: str
    skip_generator: SkipGenerator | None


@dataclass(frozen=True, slots=True)
class _CompiledRule:
    """What is cached of a constraint: nothing that refers to the backend."""

    grammar: Grammar
    rule_fingerprint: str
    plan: SkipPlan | None


# Measured with llguidance: 160 kB for a grammar of a thousand characters, 0.8 MB for 12,000, 6.7 MB for 86,000. A plan
# keeps the rule, which takes up to three times the grammar's text.
_MATCHER_BYTES = 160 * 1024
_MATCHER_FACTOR = 80
_PLAN_FACTOR = 4


def _size_of(key: RuleKey, compiled: _CompiledRule) -> int:
    size = ENTRY_BYTES + len(key.choice) + len(compiled.grammar.text)
    if compiled.grammar.make_watcher is not None:
        size += _MATCHER_BYTES + _MATCHER_FACTOR * len(compiled.grammar.text)
    if compiled.plan is not None:
        size += _PLAN_FACTOR * len(compiled.grammar.text)
    return size


class ConstraintCache:
    """The constraints of one backend."""

    def __init__(self, generator: TextGenerator) -> None:
        self.guard = SkipGuard()
        self._generator = generator
        self._step_cache = new_step_cache()
        tokenize = generator.tokenize
        self.tokenizer = Tokenizer(
            partial(tokenize, is_prompt=False), partial(tokenize, is_prompt=True), generator.detokenize
        )
        self._cache: ByteCache[RuleKey, _CompiledRule] = ByteCache(_size_of)
        self._pending: dict[tuple[asyncio.AbstractEventLoop, RuleKey], asyncio.Future[_CompiledRule]] = {}

    async def get(self, spec: ConstraintSpec) -> Constraint:
        """Return the constraint from the cache, or build it in a thread, so that the event loop is not blocked."""
        key = spec.key
        cached = self._cache.lookup(key)
        if cached is not None:
            return self._constraint(spec, cached)
        # A future belongs to one event loop. A request from another loop builds the constraint again.
        loop = asyncio.get_running_loop()
        pending = self._pending.get((loop, key))
        if pending is None:
            pending = loop.create_task(asyncio.to_thread(self._build, spec))
            self._pending[loop, key] = pending
            pending.add_done_callback(lambda done: self._store(loop, key, done))
        # One cancelled request must not cancel the build for the others.
        return self._constraint(spec, await asyncio.shield(pending))

    def clear(self) -> None:
        """Drop what is cached for this backend."""
        self._cache.cache_clear()
        self._step_cache.cache_clear()
        self.tokenizer.clear()

    def _constraint(self, spec: ConstraintSpec, compiled: _CompiledRule) -> Constraint:
        if compiled.plan is None:
            return Constraint(compiled.grammar, compiled.rule_fingerprint, None)
        emit = partial(grammar_of, target=spec.target, facts=spec.facts)
        skip_generator = SkipGenerator(compiled.plan, emit, self.tokenizer, self.guard, self._step_cache)
        return Constraint(compiled.grammar, compiled.rule_fingerprint, skip_generator)

    def _build(self, spec: ConstraintSpec) -> _CompiledRule:
        try:
            return self._compile(spec)
        except RecursionError:
            pass
        # Raised here and not above, so that the error does not keep a thousand frames and their merged schemas.
        raise SchemaError(
            "a schema refers to itself through allOf, or beside other keywords, and never ends when it is merged",
            code="ref_cycle",
            hint='Write the recursive reference alone: {"$ref": ...} without allOf and without other keywords.',
        )

    def _compile(self, spec: ConstraintSpec) -> _CompiledRule:
        rule = spec.rule()
        plan = None
        if spec.skips:
            traits = self._generator.traits
            plan = SkipPlan(
                rule, spec.facts.special_tokens, min_forced_length(traits.continuation_cost), traits.max_stops
            )
        return _CompiledRule(grammar_of(rule, spec.target, spec.facts), rule.fingerprint, plan)

    def _store(self, loop: asyncio.AbstractEventLoop, key: RuleKey, done: asyncio.Future[_CompiledRule]) -> None:
        self._pending.pop((loop, key), None)
        if not done.cancelled() and done.exception() is None:
            self._cache.get(key, done.result)
