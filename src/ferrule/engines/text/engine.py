"""TextEngine: an engine made of a text generator and a Format. The one place where render, bind and parse meet.

The prompt comes from the model's chat template, the grammar from the tools, the events from the parser, and every call
gets a receipt. Must not know any backend.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from typing import Any

from ferrule.core.call import How, Receipt
from ferrule.core.event import (
    Diagnostic,
    Event,
    Finish,
    FinishReason,
    RuleShown,
    Usage,
    WireText,
    add_usage,
)
from ferrule.core.named_media import name_unsupported_media
from ferrule.core.reply import Reply, fold
from ferrule.core.request import ChoiceMode, ToolCallRequest, ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.engines.engine import ALL_CHOICES, Enforcement, Engine, Forwarder, Traits
from ferrule.engines.generator import CompletionEnd, CompletionRequest, Grammar, ModelFacts, Piece, TextGenerator
from ferrule.engines.grammar import CANONICAL_TOKEN_TARGETS, encoding_for, lost_grammars
from ferrule.engines.receipts import GRAMMAR_NOT_FOLLOWED, ReceiptWriter, ignored_notes
from ferrule.engines.repair import Attempt, Repair, no_valid_call, repair_call, repair_request, repaired_draft
from ferrule.engines.text.constraint import ConstraintCache, ConstraintSpec
from ferrule.engines.text.excluded_values import narrow_rule
from ferrule.engines.text.prompt import FallbackMode, PromptBuilder, prompt_builder_for
from ferrule.engines.text.skip import SkipGenerator
from ferrule.engines.text.skip_guard import SKIP_PAUSED
from ferrule.engines.turn import CheckedTurn
from ferrule.errors import DefinitionError, NoValidCallError, UnsupportedError
from ferrule.rules.claims import claims_of
from ferrule.schema.admission_cache import admit_schema, admit_tools
from ferrule.wire.drift import DriftReader
from ferrule.wire.format import Format
from ferrule.wire.node import Think
from ferrule.wire.outside_text import Prompt
from ferrule.wire.parser import Parser
from ferrule.wire.registry import get_format
from ferrule.wire.rule_builder import ReasoningMode

_ADDED_TOKENS = 8


async def answer_budget(prompt: str, max_tokens: int, context: int, count: Callable[[], Awaitable[int | None]]) -> int:
    """Return `max_tokens`, reduced to what the context has left after the prompt."""
    # A token is at least one byte, except those that the tokenizer adds, so most prompts need not be counted.
    if not context or max_tokens + len(prompt.encode("utf-8", "replace")) + _ADDED_TOKENS <= context:
        return max_tokens
    prompt_tokens = await count()
    if prompt_tokens is None:
        return max_tokens
    if prompt_tokens >= context:
        too_long = DefinitionError(
            f"the prompt has {prompt_tokens} tokens, but prompt and answer together may have only {context}",
            code="context_length_exceeded",
            hint="Send fewer messages or tools, or start the engine with a larger context.",
        )
        too_long.token_counts = (prompt_tokens, context)
        raise too_long
    return min(max_tokens, context - prompt_tokens)


def _finish(
    end: CompletionEnd | None, tokens: int, stops: tuple[str, ...], *, is_cut_off: bool, has_calls: bool
) -> Finish:
    finished = FinishReason.TOOL_CALLS if has_calls else FinishReason.STOP
    reason = FinishReason.LENGTH if is_cut_off else finished
    completion_tokens = end.completion_tokens if end and end.completion_tokens is not None else tokens
    stop = end.matched_stop if end and end.matched_stop in stops else ""
    counts = (end.prompt_tokens or 0, completion_tokens, end.cached_tokens or 0) if end else (0, completion_tokens)
    return Finish(reason, Usage(*counts), stop)


def _listed_tools(request: ToolCallRequest, tools: tuple[ToolDefinition, ...]) -> tuple[ToolDefinition, ...]:
    """Return the tools that the prompt lists: without those that a message of the conversation describes."""
    described = request.described_tools
    return tuple(tool for tool in tools if tool.name not in described) if described else tools


BROKEN_SPECIAL_TOKENS = (
    "the conversation or a tool contains special tokens of the model as text; each is broken by a zero width space "
    "(U+200B), because the engine does not accept token ids"
)
MAX_TOKENS = 2048
"""The token limit of a request that sets none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOptions:
    """Options of engines that generate text: `llama`, `llama-server`, `vllm` and `sglang`. The defaults suit most uses.

    `format` is the wire format of calls; by default it is detected from the model's chat template. `target` is the
    grammar language; by default it is the backend's best. `is_constrained=False` turns the grammar off, and calls are
    only checked afterwards. `any_order` allows arguments in any order if the target supports it. `reads_drift=False`
    leaves calls in another spelling than the format's in the text (see `wire.drift`). `repairs` is how often the model
    may write one invalid call again: where a grammar cannot express a keyword, its arguments may not fit. `skips`
    appends text that the grammar forces to the prompt instead of generating it; None does so where one more request is
    cheap and the answer stays the same.

    Example:
        from ferrule import load_engine
        from ferrule.engines import TextEngine, TextOptions
        from ferrule.testing import FakeGenerator

        engine = TextEngine(FakeGenerator(["Hello."]), TextOptions(format="hermes", max_tokens=512))
        same_options = load_engine("llama:model.gguf?format=hermes&max_tokens=512")
    """

    format: Format | str | None = None
    target: str | None = None
    fallback_mode: FallbackMode = FallbackMode.AUTO
    reasoning: ReasoningMode | None = None
    is_constrained: bool = True
    any_order: bool = False
    reads_drift: bool = True
    repairs: int = 1
    skips: bool | None = None
    max_tokens: int = MAX_TOKENS


class TextEngine(Engine):
    """Generates calls that are valid by construction, on any backend that continues text."""

    def __init__(
        self, generator: TextGenerator, options: TextOptions | None = None, forwarder: Forwarder | None = None
    ) -> None:
        self.options = options or TextOptions()
        self.generator = generator
        self.forwarder = forwarder
        self._model: _LoadedModel | None = None
        self._constraints = ConstraintCache(generator)
        self.traits: Traits = self._current_traits()

    def _current_traits(self) -> Traits:
        """The backend's traits as known so far: which grammars it enforces is known only after the first request."""
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
        # By default only where skipping is faster and does not change the answer.
        return self.generator.traits.continues_cheaply and self._target in CANONICAL_TOKEN_TARGETS

    async def stream_request(
        self, request: ToolCallRequest, *, repairs: int | None = None
    ) -> AsyncGenerator[Event, None]:
        """`repairs` replaces the option for one request, so that a repair is not repaired."""
        model = await self._load_model()
        request, named = name_unsupported_media(request)
        for diagnostic in named:
            yield diagnostic
        if request.engine_options:
            names = ", ".join(request.engine_options)
            yield Diagnostic("not_sent", f"{self.traits.name} does not support {names}, so this was not sent")
        job = await self._prepare(request, model, tuple(diagnostic.message for diagnostic in named))
        shows_wire = request.shows_wire
        if shows_wire and job.request.grammar is not None:
            yield job.rule_event(job.request.grammar)
        started = time.monotonic()
        most_repairs = self.options.repairs if repairs is None else repairs
        turn = CheckedTurn(job.receipts, most_repairs > 0, request.parallel_tool_calls, job.drift)
        end: CompletionEnd | None = None
        watcher = (
            job.request.grammar.make_watcher() if job.request.grammar and job.request.grammar.make_watcher else None
        )
        async with aclosing(job.pieces(self.generator)) as pieces:
            async for piece in pieces:
                job.receipts.seconds = time.monotonic() - started
                if isinstance(piece, CompletionEnd):
                    end = piece
                    break
                job.receipts.tokens += piece.tokens
                job.receipts.skipped += piece.skipped
                if shows_wire and piece.text:
                    yield WireText(piece.text, piece.skipped > 0)
                if watcher is not None and job.receipts.follows_grammar and not watcher.feed(piece.text):
                    job.receipts.follows_grammar = False
                    yield Diagnostic("grammar_lost", GRAMMAR_NOT_FOLLOWED)
                is_silent = True
                for event in turn.process(job.read(piece.text)):
                    is_silent = False
                    yield event
                if is_silent and request.on_progress is not None:
                    request.on_progress()
        for event in turn.process(job.close()):
            yield event
        # A stream without an end event was cut off.
        is_cut_off = end is None or end.is_cut_off
        usage: Usage | None = None
        for attempt in turn.attempts:
            repair = Repair(None) if is_cut_off else await self._repair(request, job, turn.text, attempt, most_repairs)
            usage = add_usage(usage, repair.usage)
            writer = replace(job.receipts, draft=repaired_draft(job.receipts.draft, attempt))
            for event in turn.resolve(attempt, repair, writer):
                yield event
        if job.is_call_demanded and not turn.completed_calls and not is_cut_off:
            raise no_valid_call(self.traits.name, "; ".join(turn.refusals))
        for event in turn.invalid_answer(job.response_schema):
            yield event
        finish = _finish(
            end, job.receipts.tokens, job.request.stop, is_cut_off=is_cut_off, has_calls=turn.completed_calls > 0
        )
        yield replace(finish, usage=add_usage(finish.usage, usage))

    async def _repair(
        self, request: ToolCallRequest, job: _Job, text: str, attempt: Attempt, most_repairs: int
    ) -> Repair:
        async def ask(attempt: Attempt) -> Reply:
            again = replace(repair_request(request, attempt, text), shows_wire=False, on_prompt=None)
            if not attempt.is_unknown:
                choice = ToolChoice.one(attempt.name) if self._target else ToolChoice.auto()
                again = replace(again, tool_choice=choice)
            events: list[Event] = []
            try:
                async with aclosing(self.stream_request(again, repairs=0)) as stream:
                    async for event in stream:
                        events.append(event)
            except NoValidCallError:
                # What the model wrote instead is among the events.
                pass
            return fold(events)

        return await repair_call(attempt, job.receipts.tools, most_repairs, ask, request.excluded_calls)

    async def count_tokens(self, request: ToolCallRequest) -> int:
        """Count the tokens of the prompt that the request would be answered from, with the model's own tokenizer."""
        model = await self._load_model()
        tools = admit_tools(request.tools)
        request, _ = name_unsupported_media(request)
        listed = _listed_tools(request, tools)
        prompt, _ = await model.prompts.build(request.messages, listed, self.generator.apply_template, date.today())
        count = await self._count_tokens(prompt, await self._separate_tokens(prompt))
        return await super().count_tokens(request) if count is None else count

    async def _count_tokens(self, prompt: Prompt, tokens: tuple[int, ...] | None) -> int | None:
        return await self.generator.count_tokens(prompt.broken_text) if tokens is None else len(tokens)

    async def enforcement(self, tool: ToolDefinition) -> Enforcement:
        """Contacts the backend if it has not been contacted yet."""
        format = (await self._load_model()).prompts.format
        is_held = tool.name not in lost_grammars(format, self._target, (tool,))
        claims = claims_of(tool, encoding_for(format, self._target), holds_grammar=is_held)
        return Enforcement(self._target or "", claims)

    async def close(self) -> None:
        self._constraints.clear()
        await self.generator.close()

    async def format(self) -> Format:
        """Return the wire format that is used with the model."""
        return (await self._load_model()).prompts.format

    async def _load_model(self) -> _LoadedModel:
        if self._model is None:
            facts = await self.generator.facts()
            self.traits = self._current_traits()
            target, targets = self.options.target, self.generator.traits.targets
            if target is not None and target not in targets:
                raise UnsupportedError(
                    f"{self.traits.name} does not enforce grammars in {target!r}",
                    hint=f"It enforces: {', '.join(targets) or 'none'}. Omit `target` to use the best one.",
                )
            option = self.options.format
            format = get_format(option) if isinstance(option, str) else option
            prompts = await prompt_builder_for(
                facts, format, date.today(), self.options.fallback_mode, self.generator.apply_template
            )
            self._model = _LoadedModel(facts, prompts)
        return self._model

    async def _prepare(self, request: ToolCallRequest, model: _LoadedModel, first_notes: tuple[str, ...]) -> _Job:
        """Decide everything before the first token; a request that cannot be honoured raises here."""
        tools = admit_tools(request.tools)
        schema = admit_schema(request.response_schema)
        offered = request.choice.select_tools(tools)
        format = model.prompts.format
        listed = _listed_tools(request, tools)
        prompt, notes = await model.prompts.build(request.messages, listed, self.generator.apply_template, date.today())
        notes = (*first_notes, *notes)
        tokens = await self._separate_tokens(prompt)
        if tokens is None and len(prompt.pieces) > 1:
            notes = (*notes, BROKEN_SPECIAL_TOKENS)
        mode, prefix = self._reasoning_mode(model, prompt.text)
        requested = request.max_tokens or self.options.max_tokens
        count = partial(self._count_tokens, prompt, tokens)
        budget = await answer_budget(prompt.broken_text, requested, model.facts.context, count)
        if request.on_prompt is not None:
            request.on_prompt(prompt.broken_text)
        target = self._target
        if target is None and request.choice.mode is not ChoiceMode.AUTO and tools:
            raise UnsupportedError(
                f"{self.traits.name} cannot enforce tool_choice {request.choice.mode.value!r} without a grammar",
                hint="Use is_constrained=True, or tool_choice auto.",
            )
        constraint = None
        if target is not None:
            rule_request, rule_tools = narrow_rule(request, tools)
            spec = ConstraintSpec(
                request=rule_request,
                tools=rule_tools,
                schema=schema,
                format=format,
                facts=model.facts,
                target=target,
                reasoning=mode,
                any_order=self.options.any_order,
                skips=self._skips,
            )
            constraint = await self._constraints.get(spec)
        grammar = constraint.grammar if constraint else None
        # A stop string of the request may occur anywhere, also in forced text, which the backend would never see.
        skip_generator = constraint.skip_generator if constraint and not request.stop else None
        if skip_generator is not None and not self._constraints.guard.allows():
            skip_generator, notes = None, (*notes, SKIP_PAUSED)
        draft = Receipt(
            how=How.GRAMMAR if grammar else How.VALIDATED,
            engine=self.traits.name,
            path=f"completion+{grammar.target}" if grammar else "completion",
            format=format.name,
            rule=constraint.rule_fingerprint if constraint else "",
            notes=(*notes, *ignored_notes(request)),
        )
        calls_before = sum(len(message.tool_calls) for message in request.messages)
        # With `required` a grammar leaves no free text, and a text with a schema is an answer, whatever it looks like.
        reads_drift = self.options.reads_drift and request.choice.mode is ChoiceMode.AUTO and schema is None
        repairs = self.options.repairs > 0
        drift = DriftReader(format, offered, calls_before, repairs=repairs) if reads_drift and offered else None
        receipts = ReceiptWriter(
            {tool.name: tool for tool in offered},
            draft,
            encoding_for(format, target),
            drifted=drift.drifted if drift else {},
            lost_grammars=lost_grammars(format, target, offered),
            excluded=request.excluded_calls,
        )
        return _Job(
            CompletionRequest(
                # The tokens decide where the backend accepts them; the text is sent if it does not.
                prompt=prompt.broken_text,
                tokens=tokens,
                grammar=grammar,
                max_tokens=budget,
                temperature=request.temperature,
                top_p=request.top_p,
                top_k=request.top_k,
                seed=request.seed,
                reports_stop=bool(request.stop),
                stop=request.stop if grammar else (*request.stop, *format.stops),
                preserved_tokens=format.tokens,
                on_progress=request.on_progress,
            ),
            Parser(format, offered, prefix=prefix, calls_before=calls_before),
            drift,
            receipts,
            schema,
            request.choice.mode is ChoiceMode.REQUIRED,
            skip_generator,
        )

    async def _separate_tokens(self, prompt: Prompt) -> tuple[int, ...] | None:
        """Return the tokens of a prompt of several pieces. None for one piece, or if the tokens would spell more."""
        if len(prompt.pieces) < 2:
            return None
        # Some tokenizers put a space before every text, and thus before every piece.
        if await self._constraints.tokenizer.tokens("a") is None:
            return None
        return await self.generator.tokenize(*prompt.pieces, is_prompt=True)

    def _reasoning_mode(self, model: _LoadedModel, prompt: str) -> tuple[ReasoningMode, str]:
        """Return whether the model may reason, and the opening marker if the prompt already ends with it."""
        format = model.prompts.format
        think = next((item for item in format.reply.items if isinstance(item, Think)), None)
        if think is None:
            return ReasoningMode.OFF, ""
        opening = think.open.canonical
        if prompt.rstrip().endswith(opening.strip()):
            return ReasoningMode.PREFILLED, opening
        is_supported = opening.strip() in model.prompts.source
        return self.options.reasoning or (ReasoningMode.ON if is_supported else ReasoningMode.OFF), ""


@dataclass(frozen=True, slots=True)
class _LoadedModel:
    facts: ModelFacts
    prompts: PromptBuilder


@dataclass(frozen=True, slots=True)
class _Job:
    """One request, ready to be generated."""

    request: CompletionRequest
    parser: Parser
    drift: DriftReader | None
    receipts: ReceiptWriter
    response_schema: dict[str, Any] | None
    is_call_demanded: bool
    skip_generator: SkipGenerator | None

    def pieces(self, generator: TextGenerator) -> AsyncGenerator[Piece | CompletionEnd, None]:
        if self.skip_generator is None:
            return generator.generate(self.request)
        return self.skip_generator.generate(generator.generate, self.request)

    def read(self, text: str) -> list[Event]:
        events = self.parser.feed(text)
        return events if self.drift is None else self.drift.read(events)

    def close(self) -> list[Event]:
        events = self.parser.close()
        return events if self.drift is None else [*self.drift.read(events), *self.drift.close()]

    def rule_event(self, grammar: Grammar) -> RuleShown:
        format = self.receipts.draft.format
        return RuleShown(format, grammar.target, grammar.text, self.request.prompt, grammar.triggers)
