"""TextEngine: any text generator and a Format make an engine. The one place where render, bind and parse meet.

The prompt comes from the model's template, the grammar from the tools, the events from the parser, and every call
leaves through the seal. Must not know any backend.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from ferrule.core.choice import ChoiceMode
from ferrule.core.event import Diagnostic, Event, RuleShown, WireText
from ferrule.core.receipt import How, Receipt
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.engines.engine import ALL_CHOICES, Enforcement, Engine, Traits
from ferrule.engines.generator import Ended, Grammar, ModelFacts, Piece, TextGenerator, Writing
from ferrule.engines.grammar import ONE_SPELLING, encoding_under
from ferrule.engines.receipts import LET_GO, Seal
from ferrule.engines.text.constraint import TextRules, Wanted
from ferrule.engines.text.prompt import FallbackMode, Prompting, prompting_for
from ferrule.engines.text.reply_state import Seen
from ferrule.engines.text.skip import Skipper
from ferrule.engines.text.skip_guard import PAUSED
from ferrule.engines.text.token_budget import bounds_within, room_after
from ferrule.engines.tool_admission import admitted, admitted_schema
from ferrule.errors import UnsupportedError
from ferrule.rules.claims import claims_of
from ferrule.wire.format import Format
from ferrule.wire.node import Think
from ferrule.wire.parser import Parser
from ferrule.wire.registry import get_format
from ferrule.wire.rule_builder import ReasoningMode

MAX_TOKENS = 2048
"""The budget of a request that sets none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOptions:
    """How a text engine goes about it; the defaults are right for most.

    `format` is found from the model's template unless given. `is_constrained` off leaves the model free, with every
    call still checked. `is_bounded` off leaves open strings and arrays without an end (see `schema.bound`). `any_order`
    lets arguments come in any order where the target can say so. `skips` appends what the rule forces to the prompt
    instead of having it generated; None does so where the backend goes on cheaply.
    """

    format: Format | str | None = None
    target: str | None = None
    fallback_mode: FallbackMode = FallbackMode.AUTO
    reasoning: ReasoningMode | None = None
    is_constrained: bool = True
    is_bounded: bool = True
    any_order: bool = False
    skips: bool | None = None
    max_tokens: int = MAX_TOKENS


class TextEngine(Engine):
    """Calls that are right by construction, from anything that continues text."""

    def __init__(self, generator: TextGenerator, options: TextOptions | None = None) -> None:
        self.options = options or TextOptions()
        self.generator = generator
        self._known: _Known | None = None
        self._rules = TextRules(generator)
        self.traits: Traits = self._seen_traits()

    def _seen_traits(self) -> Traits:
        """As the backend's are known by now: what it is held by is seen only when it is first asked."""
        return replace(self.generator.traits, honours=ALL_CHOICES if self._target else frozenset({"auto"}))

    @property
    def _target(self) -> str | None:
        targets = self.generator.traits.targets
        if not self.options.is_constrained or not targets:
            return None
        return self.options.target or targets[0]

    @property
    def _skips(self) -> bool:
        if self.options.skips is not None:
            return self.options.skips
        # Without being asked only where it is faster and changes no word.
        return self.generator.traits.goes_on_cheaply and self._target in ONE_SPELLING

    async def stream(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        known = await self._ready()
        work = await self._work(request, known)
        shows = request.shows_wire
        if shows and work.writing.grammar is not None:
            yield work.rule_shown(work.writing.grammar)
        started = time.monotonic()
        seen = Seen()
        watch = work.writing.grammar.watch() if work.writing.grammar and work.writing.grammar.watch else None
        async with aclosing(work.pieces(self.generator)) as pieces:
            async for piece in pieces:
                work.seal.seconds = time.monotonic() - started
                if isinstance(piece, Ended):
                    seen.ended = piece
                    break
                work.seal.tokens += piece.tokens
                work.seal.skipped += piece.skipped
                if shows and piece.text:
                    yield WireText(piece.text, piece.skipped > 0)
                if watch is not None and work.seal.is_held and not watch.feed(piece.text):
                    work.seal.is_held = False
                    yield Diagnostic("grammar_lost", LET_GO)
                for event in work.seal.passed(work.parser.feed(piece.text)):
                    yield seen.noted(event)
        for event in work.seal.passed(work.parser.close()):
            yield seen.noted(event)
        for event in seen.judged(work.response_schema, is_demanded=work.is_call_demanded):
            yield event
        yield seen.finish(work.seal.tokens)

    async def count_tokens(self, request: ToolCallRequest) -> int:
        """By the model's own tokenizer, of the very prompt that the request would be answered from."""
        known = await self._ready()
        tools = admitted(request.tools)
        prompt, _ = await known.prompting.prompt(request.messages, tools, self.generator.templated, date.today())
        counted = await self.generator.count(prompt)
        return await super().count_tokens(request) if counted is None else counted

    async def enforcement(self, tool: ToolDefinition) -> Enforcement:
        """Asks the backend where nothing is known of it yet."""
        format = (await self._ready()).prompting.format
        return Enforcement(self._target or "", claims_of(tool, encoding_under(format, self._target)))

    async def close(self) -> None:
        await self.generator.close()

    async def format(self) -> Format:
        """The wire format that the model is spoken to in."""
        return (await self._ready()).prompting.format

    async def _ready(self) -> _Known:
        if self._known is None:
            facts = await self.generator.facts()
            self.traits = self._seen_traits()
            asked, held = self.options.target, self.generator.traits.targets
            if asked is not None and asked not in held:
                raise UnsupportedError(
                    f"{self.traits.name} is not held by a grammar in {asked!r}",
                    hint=f"It is held by {', '.join(held) or 'none'}; leave `target` out to use the best.",
                )
            named = self.options.format
            format = get_format(named) if isinstance(named, str) else named
            prompting = await prompting_for(
                facts, format, date.today(), self.options.fallback_mode, self.generator.templated
            )
            self._known = _Known(facts, prompting)
        return self._known

    async def _work(self, request: ToolCallRequest, known: _Known) -> _Work:
        """Everything that is decided before the first token; whatever cannot be honoured raises here."""
        tools = admitted(request.tools)
        schema = admitted_schema(request.response_schema)
        offered = request.choice.offered(tools)
        format = known.prompting.format
        prompt, notes = await known.prompting.prompt(request.messages, tools, self.generator.templated, date.today())
        mode, prefix = self._reasoning(known, prompt)
        asked = request.max_tokens or self.options.max_tokens
        room = await room_after(prompt, asked, known.facts.context, self.generator.count)
        target = self._target
        is_bounded = self.options.is_bounded and offered and target is not None
        bounds = bounds_within(request, offered, room, asked, format) if is_bounded else None
        if target is None and request.choice.mode is not ChoiceMode.AUTO and tools:
            raise UnsupportedError(
                f"{self.traits.name} cannot be held to {request.choice.mode.value!r} without a grammar",
                hint="Leave the engine constrained, or ask with auto.",
            )
        made = None
        if target is not None:
            wanted = Wanted(
                request=request,
                tools=tools,
                schema=schema,
                format=format,
                facts=known.facts,
                target=target,
                reasoning=mode,
                bounds=bounds,
                any_order=self.options.any_order,
                skips=self._skips,
            )
            made = await self._rules.made(wanted)
        grammar = made.grammar if made else None
        # A stop of the request's own may stand anywhere, in what is forced too.
        skipper = made.skipper if made and not request.stop else None
        if skipper is not None and not self._rules.guard.allows():
            skipper, notes = None, (*notes, PAUSED)
        draft = Receipt(
            how=How.GRAMMAR if grammar else How.VALIDATED,
            engine=self.traits.name,
            path=f"completion+{grammar.target}" if grammar else "completion",
            format=format.name,
            rule=made.rule if made else "",
            notes=notes,
        )
        seal = Seal({tool.name: tool for tool in offered}, draft, encoding_under(format, target), bounds)
        before = sum(len(message.tool_calls) for message in request.messages)
        return _Work(
            Writing(
                prompt=prompt,
                grammar=grammar,
                max_tokens=room,
                temperature=request.temperature,
                top_p=request.top_p,
                top_k=request.top_k,
                seed=request.seed,
                stop=request.stop if grammar else (*request.stop, *format.stops),
                marks=format.tokens,
            ),
            Parser(format, offered, prefix=prefix, calls_before=before),
            seal,
            schema,
            request.choice.mode is ChoiceMode.REQUIRED,
            skipper,
        )

    def _reasoning(self, known: _Known, prompt: str) -> tuple[ReasoningMode, str]:
        """Whether the model may reason, and what the prompt has opened of it already."""
        format = known.prompting.format
        think = next((item for item in format.reply.items if isinstance(item, Think)), None)
        if think is None:
            return ReasoningMode.OFF, ""
        opened = think.open.canonical
        if prompt.rstrip().endswith(opened.strip()):
            return ReasoningMode.PREFILLED, opened
        knows_it = opened.strip() in known.prompting.source
        return self.options.reasoning or (ReasoningMode.ON if knows_it else ReasoningMode.OFF), ""


@dataclass(frozen=True, slots=True)
class _Known:
    facts: ModelFacts
    prompting: Prompting


@dataclass(frozen=True, slots=True)
class _Work:
    """One request, ready to be written."""

    writing: Writing
    parser: Parser
    seal: Seal
    response_schema: dict[str, Any] | None
    is_call_demanded: bool
    skipper: Skipper | None

    def pieces(self, generator: TextGenerator) -> AsyncGenerator[Piece | Ended, None]:
        if self.skipper is None:
            return generator.write(self.writing)
        return self.skipper.write(generator.write, self.writing)

    def rule_shown(self, grammar: Grammar) -> RuleShown:
        format = self.seal.draft.format
        return RuleShown(format, grammar.target, grammar.text, self.writing.prompt, grammar.triggers)
