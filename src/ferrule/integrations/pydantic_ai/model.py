"""FerruleModel: a Ferrule engine as a Pydantic AI model, with and without streaming."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from pydantic_ai import exceptions as theirs
from pydantic_ai.messages import ModelMessage, ModelResponse, ModelResponseStreamEvent
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse, check_allow_model_requests
from pydantic_ai.profiles import ModelProfile, ModelProfileSpec
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext
from pydantic_ai.usage import RequestUsage

from ferrule.core.event import ArgumentsDelta, CallEnd, CallStart, Event, ReasoningDelta, TextDelta
from ferrule.core.reply import Reply, ReplyFold
from ferrule.core.request import ChoicePolicy, ToolCallRequest
from ferrule.dialects.extension import Extension
from ferrule.dialects.sequence import EventSequence
from ferrule.engines.engine import Engine
from ferrule.errors import EngineError, EngineTimeoutError, EngineUnavailableError, FerruleError, UnsupportedError
from ferrule.integrations.model import engine_of, is_truncated, rejection_reason, reply_events, reply_of
from ferrule.integrations.pydantic_ai.messages import FINISHES, SYSTEM, request_of, response_of, usage_of

_PROFILE = ModelProfile(
    supports_json_schema_output=True,
    supports_image_input=False,
    supports_document_input=False,
    supports_audio_input=False,
    supports_audio_file_input=False,
    supports_video_input=False,
)
# The first match counts.
_FAILURES: tuple[tuple[type[FerruleError], type[theirs.ModelAPIError]], ...] = (
    (EngineTimeoutError, theirs.ModelTimeoutError),
    (EngineUnavailableError, theirs.ModelUnavailableError),
    (UnsupportedError, theirs.ModelRequestRejectedError),
    (EngineError, theirs.ModelServerError),
    (FerruleError, theirs.ModelRequestRejectedError),
)


class FerruleModel(Model[Any]):
    """A Ferrule engine as a model, from an `Engine` or a string for `ferrule.load_engine`. The caller closes it.

    `tool_choice_policy` changes the choice "auto": "required_first_hop" makes a small model call a tool before it
    answers. `tool_choice` cannot express that, because it applies to every step of a run.

    Example:
        agent = Agent(FerruleModel("llama:model.gguf"))
    """

    unsupported_settings = frozenset(
        (
            *("timeout", "max_retries", "presence_penalty", "frequency_penalty", "logit_bias"),
            *("service_tier", "extra_headers", "extra_body", "citations"),
        )
    )

    def __init__(
        self,
        engine: Engine | str,
        *,
        name: str = "",
        tool_choice_policy: ChoicePolicy | str = ChoicePolicy.AUTO,
        settings: ModelSettings | None = None,
        profile: ModelProfileSpec | None = None,
    ) -> None:
        self.engine = engine_of(engine)
        self._name = name or self.engine.traits.name
        self._policy = ChoicePolicy(tool_choice_policy)
        super().__init__(settings=settings, profile=_PROFILE if profile is None else profile)

    @property
    def model_name(self) -> str:
        return self._name

    @property
    def system(self) -> str:
        return SYSTEM

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        prepared, _ = self._prepare(messages, model_settings, model_request_parameters)
        with _framework_errors(self._name):
            reply = await reply_of(self.engine, prepared)
        _require_complete(reply)
        return response_of(reply, self._name)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        request, prepared = self._prepare(messages, model_settings, model_request_parameters)
        async with aclosing(reply_events(self.engine, request)) as events:
            yield _Stream(prepared, events, self._name)

    async def count_tokens(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> RequestUsage:
        request, _ = self._prepare(messages, model_settings, model_request_parameters)
        with _framework_errors(self._name):
            return RequestUsage(input_tokens=await self.engine.count_tokens(request))

    def _prepare(
        self, messages: list[ModelMessage], model_settings: ModelSettings | None, parameters: ModelRequestParameters
    ) -> tuple[ToolCallRequest, ModelRequestParameters]:
        check_allow_model_requests()
        settings, prepared = self.prepare_request(model_settings, parameters)
        instructions = self._get_instruction_parts(messages, prepared) or []
        request = request_of(messages, [part.content for part in instructions], settings, prepared)
        return replace(request, tool_choice_policy=self._policy), prepared


@dataclass
class _Stream(StreamedResponse):
    """The streamed response. A call comes as a whole, when it is complete and matches its schema."""

    _events: AsyncGenerator[Event, None]
    _name: str
    _started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    _is_reading: bool = field(default=False, init=False)
    _usage_received: bool | None = field(default=False, init=False)

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        fold, sequence = ReplyFold(), EventSequence()
        with _framework_errors(self._name):
            self._is_reading = True
            async for event in self._events:
                self._is_reading = False
                fold.add(event)
                for plain in sequence.feed(event):
                    for part_event in self._part_events(plain):
                        yield part_event
                if self.cancelled:
                    return
                self._is_reading = True
        self._is_reading = False
        reply = fold.reply()
        _require_complete(reply)
        self.finish_reason = FINISHES[reply.finish_reason]
        self.provider_details = Extension.of(reply).as_field()
        self._add_usage(usage_of(reply.usage), reported=reply.usage is not None)

    def _part_events(self, event: Event) -> Iterator[ModelResponseStreamEvent]:
        parts = self._parts_manager
        match event:
            case TextDelta(text):
                yield from parts.handle_text_delta(vendor_part_id=None, content=text)
            case ReasoningDelta(text) if text:
                yield from parts.handle_thinking_delta(vendor_part_id=None, content=text)
            case CallStart(index, id, name):
                yield from parts.handle_tool_call_delta_events(
                    vendor_part_id=index, tool_name=name, tool_call_id=id, provider_name=SYSTEM
                )
            case ArgumentsDelta(index, json):
                yield from parts.handle_tool_call_delta_events(vendor_part_id=index, args=json)
            case CallEnd(index, True, receipt) if receipt:
                yield from parts.handle_tool_call_delta_events(
                    vendor_part_id=index, provider_name=SYSTEM, provider_details={"receipt": receipt.as_dict()}
                )
            case _:
                pass

    async def close_stream(self) -> None:
        # A generator that is waiting for the engine cannot be closed from outside: it ends at the next event.
        if not self._is_reading:
            await self._events.aclose()

    @property
    def model_name(self) -> str:
        return self._name

    @property
    def provider_name(self) -> str:
        return SYSTEM

    @property
    def provider_url(self) -> None:
        return None

    @property
    def timestamp(self) -> datetime:
        return self._started_at


@contextmanager
def _framework_errors(model: str) -> Generator[None]:
    try:
        yield
    except FerruleError as error:
        kind = next(kind for ours, kind in _FAILURES if isinstance(error, ours))
        if error.code == "context_length_exceeded":
            kind = theirs.ModelContextWindowExceededError
        message = f"{error.message} {error.hint}".strip()
        raise kind(model, message, provider_error_code=error.code) from error


def _require_complete(reply: Reply) -> None:
    problem = rejection_reason(reply)
    if problem:
        raise (theirs.IncompleteToolCall if is_truncated(reply) else theirs.UnexpectedModelBehavior)(problem)
