"""Engine: the interface of everything that turns a request into a stream of events.

A whole reply is always the fold of those events, so streaming and non-streaming callers see the same answer. This
module must not know how an engine generates text or which HTTP API it uses.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from ferrule.core.conversion import MessagesInput, ToolsInput
from ferrule.core.event import Event, TextDelta
from ferrule.core.forward import ForwardApi, ForwardedPart, ForwardRequest
from ferrule.core.reply import Reply, ReplyFold
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.engines.request_options import PreparedRequest, RequestOptions
from ferrule.engines.sync import Closable, iterate, run
from ferrule.errors import UnsupportedError
from ferrule.rules.claims import Claims, claims_of

if TYPE_CHECKING:
    from ferrule.run.single_turn import ConversationTurn, RunOptions, Tools

# About eight forced tokens lie between two values of a call (measured by `scripts/bench-skip`). A request that costs
# more than six tokens leaves too little gain.
_MAX_CHEAP_CONTINUATION = 6.0
ALL_CHOICES = frozenset({"auto", "none", "required", "one", "allowed"})
"""Every kind of `tool_choice`; `engines.chat.engine.choice_kind` names the kind of one choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What an engine supports, as data.

    `targets` are the grammar languages that it enforces, best first. `honours` are the kinds of `tool_choice` that it
    follows by itself ("auto" always). Any other choice is expressed in another way, or refused before anything is
    generated.
    """

    name: str
    targets: tuple[str, ...] = ()
    honours: frozenset[str] = frozenset({"auto", "none"})
    parallel: bool = True
    """Whether the engine can be limited to one call per answer."""
    continuation_cost: float | None = None
    """The cost of one more request on a prompt that the engine has just read, with a little text appended.

    Counted in tokens that the engine could have generated in that time; None if unknown.
    """
    client_api: str = ""
    """The API whose client bodies the engine sends on as the client wrote them (`ToolCallRequest.client_body`)."""
    media: frozenset[str] = frozenset()
    """The kinds of media that the model takes ("image", "audio", "file"), as far as it is known.

    An engine that must ask its server does so with the first request that has some. What a model does not take reaches
    it as a line with its name, type and size.
    """
    tool_search: bool = False
    """Whether the engine carries out a search that a client declared (`ToolCallRequest.tool_search`)."""
    reads_silently: bool = False
    """Whether it may read a long prompt for minutes and send nothing meanwhile, as servers without progress reports."""
    options: frozenset[str] = frozenset()
    """The options of a request's `engine_options` that the engine has."""
    max_stops: int | None = None
    """How many stop strings one request may have; None means any number."""

    @property
    def continues_cheaply(self) -> bool:
        """Whether skipping usually pays: the forced text between two values costs more than one more request."""
        return self.continuation_cost is not None and self.continuation_cost <= _MAX_CHEAP_CONTINUATION


@dataclass(frozen=True, slots=True)
class Enforcement:
    """How calls of one tool are kept to its schema. `target` is the grammar language, empty if there is no grammar."""

    target: str
    claims: Claims


def no_enforcement(tool: ToolDefinition) -> Enforcement:
    """The enforcement of an engine without a grammar: every call is checked after it was generated."""
    return Enforcement("", claims_of(tool, None))


class Forwarder(Protocol):
    """Answers requests in the client's own API; see `ForwardRequest`."""

    @property
    def apis(self) -> frozenset[ForwardApi]:
        """The APIs that an engine of this kind has. Whether this one has them, its answer says."""
        ...

    def forward(self, request: ForwardRequest, /) -> AsyncGenerator[ForwardedPart, None]:
        """Yield the parts of the answer; the last one has its `finish`. Closing the generator stops the engine."""
        ...


def no_such_api(message: str, hint: str = "") -> UnsupportedError:
    """The error for an engine that does not have an API whose requests are forwarded."""
    default = "Use another model; GET /v1/models says which APIs each has."
    return UnsupportedError(message, code="unsupported_api", hint=hint or default)


class Engine(Closable):
    """The interface of every engine: `ask` for one reply, `run` for the tool loop, `stream` for events.

    Each has a synchronous form: `ask_sync`, `run_sync`, `stream_sync`. Close an engine when you are done, or use it
    with `with` or `async with`. An engine implements `stream_request` and `close`.

    Example:
        from ferrule import load_engine

        def get_weather(city: str) -> str:
            "The weather of a city."
            return "sunny"

        async with load_engine("llama:model.gguf") as engine:
            reply = await engine.ask("How is Paris?", tools=[get_weather], tool_choice="required")
            print(reply.calls)
            turn = await engine.run("How is Paris?", tools=[get_weather])
            print(turn.text)
            async for event in engine.stream("How are you?"):
                print(event)
    """

    traits: Traits
    forwarder: Forwarder | None = None
    """Answers text completions and embeddings, if engines of this kind have an API for them."""
    startup_note: str = ""
    """What the engine chose by itself when it was loaded, in one line; empty if nothing. The command line prints it."""

    @abstractmethod
    def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        """Yield the answer's events as they are generated. Engines implement this; callers use `stream`."""

    async def ask(
        self,
        messages: MessagesInput | ToolCallRequest,
        *,
        tools: ToolsInput | None = None,
        response_type: Any = None,
        **options: Unpack[RequestOptions],
    ) -> Reply:
        """Return one reply. Tools are offered and their calls returned, but not run; `run` does that.

        Args:
            messages: A prompt, a list of dicts or `ChatMessage` values, or a whole request.
            tools: Functions, `@tool` functions or definitions.
            response_type: A pydantic model, a dataclass, a TypedDict or another type. The answer is constrained to it,
                and `reply.value` is an object of it.
            options: The other fields of a `ToolCallRequest`, such as `tool_choice`, `max_tokens` and `temperature`.

        Example:
            reply = await engine.ask("How is Paris?", tools=[get_weather], tool_choice="required")
            print(reply.calls[0].arguments)

            reply = await engine.ask("Name a city in Italy.", response_type=City)
            print(reply.value.name)
        """
        prepared = PreparedRequest.of(messages, tools, response_type, options)
        return prepared.with_value(await self.generate_with_tools(prepared.request))

    async def run(
        self,
        messages: MessagesInput | ToolCallRequest,
        *,
        tools: Tools = (),
        response_type: Any = None,
        **options: Unpack[RunOptions],
    ) -> ConversationTurn:
        """Run the tool loop: ask, run the calls, ask again, until the model answers or a limit is reached.

        Args:
            messages: A prompt, a list of dicts or `ChatMessage` values, or a whole request.
            tools: Functions, a source such as `McpServers`, or a `ToolExecutor`.
            response_type: As in `ask`, for the last reply of the turn.
            options: `decide` approves calls with side effects, which are denied by default. `max_iterations`,
                `per_tool_timeout_seconds` and `max_concurrent` limit the loop. `context` says who is calling, and
                `hooks` run around calls and replies. The others are the fields of a `ToolCallRequest`.

        Example:
            turn = await engine.run("How is Paris?", tools=[get_weather])
            print(turn.text)

            turn = await engine.run("Book a table.", tools=[book_table], decide=lambda call: input("y/n ") == "y")
        """
        # The loop is above engines: it is imported when it is first used.
        from ferrule.run.single_turn import run_turn

        return await run_turn(self, messages, tools, response_type, options)

    def stream(
        self,
        messages: MessagesInput | ToolCallRequest,
        *,
        tools: ToolsInput | None = None,
        response_type: Any = None,
        **options: Unpack[RequestOptions],
    ) -> AsyncGenerator[Event, None]:
        """Yield the events of one reply as they are generated; takes what `ask` takes.

        Call `aclose` on the generator to stop the engine.

        Example:
            async for event in engine.stream("How are you?"):
                if isinstance(event, TextDelta):
                    print(event.text, end="")
        """
        return self.stream_request(PreparedRequest.of(messages, tools, response_type, options).request)

    async def stream_text(
        self, messages: MessagesInput | ToolCallRequest, **options: Unpack[RequestOptions]
    ) -> AsyncGenerator[str, None]:
        """Yield only the text of one reply as it is generated.

        Example:
            async for text in engine.stream_text("How are you?"):
                print(text, end="")
        """
        async with aclosing(self.stream(messages, **options)) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    yield event.text

    async def generate_with_tools(self, request: ToolCallRequest) -> Reply:
        """Return the whole answer to a request."""
        folding = ReplyFold()
        async with aclosing(self.stream_request(request)) as events:
            async for event in events:
                folding.add(event)
        return folding.reply()

    async def count_tokens(self, request: ToolCallRequest) -> int:
        """Count the tokens of the request's prompt with the model's own tokenizer."""
        raise UnsupportedError(
            f"{self.traits.name} does not count tokens", hint="Send the request and read the usage of its answer."
        )

    def forward(self, request: ForwardRequest) -> AsyncGenerator[ForwardedPart, None]:
        """Yield the engine's own answer to a text completion or to embeddings, without tools and without checks."""
        if self.forwarder is None or request.api not in self.forwarder.apis:
            raise no_such_api(f"{self.traits.name} does not have /v1/{request.api}")
        return self.forwarder.forward(request)

    async def enforcement(self, tool: ToolDefinition) -> Enforcement:
        """Return which schema keywords of a tool would be enforced and which checked, as on a receipt."""
        return no_enforcement(tool)

    def generate(self, request: ToolCallRequest) -> Reply:
        """Call `generate_with_tools` from a synchronous program."""
        return run(self.generate_with_tools(request))

    def ask_sync(
        self,
        messages: MessagesInput | ToolCallRequest,
        *,
        tools: ToolsInput | None = None,
        response_type: Any = None,
        **options: Unpack[RequestOptions],
    ) -> Reply:
        """Call `ask` from a synchronous program.

        Example:
            print(engine.ask_sync("How are you?").text)
        """
        return run(self.ask(messages, tools=tools, response_type=response_type, **options))

    def run_sync(
        self,
        messages: MessagesInput | ToolCallRequest,
        *,
        tools: Tools = (),
        response_type: Any = None,
        **options: Unpack[RunOptions],
    ) -> ConversationTurn:
        """Call `run` from a synchronous program.

        Example:
            print(engine.run_sync("How is Paris?", tools=[get_weather]).text)
        """
        return run(self.run(messages, tools=tools, response_type=response_type, **options))

    def stream_sync(
        self,
        messages: MessagesInput | ToolCallRequest,
        *,
        tools: ToolsInput | None = None,
        response_type: Any = None,
        **options: Unpack[RequestOptions],
    ) -> Iterator[Event]:
        """Iterate over `stream` in a synchronous program. Leaving the loop early stops the engine.

        Example:
            for event in engine.stream_sync("How are you?"):
                print(event)
        """
        return iterate(self.stream(messages, tools=tools, response_type=response_type, **options))

    def stream_text_sync(
        self, messages: MessagesInput | ToolCallRequest, **options: Unpack[RequestOptions]
    ) -> Iterator[str]:
        """Iterate over `stream_text` in a synchronous program.

        Example:
            for text in engine.stream_text_sync("How are you?"):
                print(text, end="")
        """
        return iterate(self.stream_text(messages, **options))
