"""ToolCallRequest: everything that one generation needs, the same for every engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import InitVar, dataclass, field, replace
from enum import StrEnum
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict, cast

from ferrule.core.call import FunctionCall
from ferrule.core.client_body import ClientBody
from ferrule.core.conversion import MessagesInput, ToolsInput, to_enum, to_messages, to_texts, to_tools
from ferrule.core.json_text import canonical, loads
from ferrule.core.message import ChatMessage, Role
from ferrule.core.tool import ToolDefinition
from ferrule.core.tool_search import DeclaredSearch
from ferrule.errors import DefinitionError


class ChoiceMode(StrEnum):
    """AUTO: answer or call. NONE: answer. REQUIRED: call.

    Example:
        ToolChoice.allowed(["search", "fetch"], ChoiceMode.REQUIRED)
    """

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"


class ChoicePolicy(StrEnum):
    """How AUTO is treated. REQUIRED_FIRST_HOP: a call is required until there is a result after the last user message.

    Example:
        ToolCallRequest(messages=messages, tools=tools, tool_choice_policy=ChoicePolicy.REQUIRED_FIRST_HOP)
    """

    AUTO = "auto"
    REQUIRED_FIRST_HOP = "required_first_hop"
    REQUIRED_ALWAYS = "required_always"


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """A mode, and the names of the tools it applies to (None for all).

    Example:
        ToolChoice.auto()
        ToolChoice.one("get_weather")
        ToolChoice.allowed(["get_weather", "get_time"])
    """

    mode: ChoiceMode
    names: tuple[str, ...] | None = None
    Auto: ClassVar[ToolChoice]
    Required: ClassVar[ToolChoice]

    if TYPE_CHECKING:
        # What the generated constructor accepts, which is more than the types of the fields.
        def __init__(self, mode: ChoiceMode | str, names: str | Iterable[str] | None = None) -> None: ...

    def __post_init__(self) -> None:
        if type(self.mode) is not ChoiceMode:
            object.__setattr__(self, "mode", to_enum(ChoiceMode, self.mode, "the mode of a tool_choice"))
        if self.names is not None and type(self.names) is not tuple:
            object.__setattr__(self, "names", to_texts(self.names, "names"))

    @staticmethod
    def auto() -> ToolChoice:
        return ToolChoice(ChoiceMode.AUTO)

    @staticmethod
    def none() -> ToolChoice:
        return ToolChoice(ChoiceMode.NONE)

    @staticmethod
    def required() -> ToolChoice:
        return ToolChoice(ChoiceMode.REQUIRED)

    @staticmethod
    def one(name: str) -> ToolChoice:
        """Require a call of this tool."""
        return ToolChoice(ChoiceMode.REQUIRED, (name,))

    # The specification's spelling.
    specific = one
    Specific = one

    @staticmethod
    def allowed(names: Iterable[str], mode: ChoiceMode | str = ChoiceMode.AUTO) -> ToolChoice:
        """Allow only these tools. With REQUIRED the model must call one of them."""
        return ToolChoice(mode, tuple(dict.fromkeys(to_texts(names, "names"))))

    def select_tools(self, tools: Iterable[ToolDefinition]) -> tuple[ToolDefinition, ...]:
        """Return the tools that may be called under this choice. An unknown name is an error, not an empty set."""
        available = tuple(tools)
        if self.mode is ChoiceMode.NONE:
            return ()
        if self.names is None:
            if self.mode is ChoiceMode.REQUIRED and not available:
                raise DefinitionError(
                    "tool_choice requires a call, but no tool is offered",
                    hint="Pass tools, or use auto.",
                    param="tool_choice",
                )
            return available
        by_name = {tool.name: tool for tool in available}
        missing = [name for name in self.names if name not in by_name]
        if missing or not self.names:
            raise DefinitionError(
                f"tool_choice names unknown tools: {', '.join(missing)}" if missing else "tool_choice names no tools",
                hint=f"The request offers: {', '.join(by_name) or 'no tools'}.",
                param="tool_choice",
            )
        return tuple(by_name[name] for name in self.names)


ToolChoice.Auto, ToolChoice.Required = ToolChoice.auto(), ToolChoice.required()


class GenerateParams(TypedDict, total=False):
    """The generation parameters of a request, as one value: `ToolCallRequest(..., params=GenerateParams(seed=1))`.

    Example:
        params = GenerateParams(max_tokens=200, temperature=0.0)
    """

    max_tokens: int | None
    temperature: float | None
    top_p: float | None
    top_k: int | None
    seed: int | None
    stop: str | Iterable[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallRequest:
    """One request to a model. Generation parameters that are None use the engine's default.

    `messages` may be a text, and dicts or `ChatMessage` values. `tools` may be functions. `tool_choice` may be "auto",
    "none", "required" or the name of a tool. All are converted and checked when the request is made; anything else
    raises `DefinitionError`.

    Example:
        request = ToolCallRequest(
            messages="How is the weather in Rome?",
            tools=[get_weather],
            tool_choice="required",
            max_tokens=200,
        )
        reply = engine.generate(request)
    """

    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolDefinition, ...] = ()
    tool_choice: ToolChoice = ToolChoice.auto()
    tool_choice_policy: ChoicePolicy = ChoicePolicy.AUTO
    parallel_tool_calls: bool = True
    response_schema: dict[str, Any] | None = None
    model: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    shows_wire: bool = False
    """Whether the events include the rule and the raw model output (`RuleShown`, `WireText`)."""
    ignored: tuple[str, ...] = field(default=(), compare=False)
    """The paths of what a client sent and nobody carries out, such as "logit_bias"; receipts name them."""
    client_body: ClientBody | None = field(default=None, compare=False, repr=False)
    """The body from which a client's request was read, for an engine of the same API."""
    excluded_calls: tuple[FunctionCall, ...] = ()
    """Calls that the reply must not make again. Other calls of these tools are allowed."""
    engine_options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Options that only some engines have, by their names in OpenAI's chat API, such as "reasoning_effort".

    An engine sends those that are in its `Traits.options`; a diagnostic names the others."""
    described_tools: frozenset[str] = frozenset()
    """The names of tools that a message of the conversation describes: a prompt does not list them once more.

    See `run.deferral`. They are among `tools`, and the model may call them."""
    tool_search: DeclaredSearch | None = None
    """The search that the client declared, and the tools that it defers: they are among `tools`.

    An engine offers all tools unless it searches itself (`Traits.tool_search`) or is behind `run.deferring_engine`."""
    on_progress: Callable[[], None] | None = field(default=None, compare=False, repr=False)
    """Called while the engine makes progress that no event shows: it reads the prompt, or writes a call that is not
    forwarded yet. A limit of silence starts anew then."""
    on_prompt: Callable[[str], None] | None = field(default=None, compare=False, repr=False)
    """Called with the text of the prompt before it is read, by engines that render it themselves."""
    params: InitVar[GenerateParams | None] = None
    """Generation parameters as one value; those that are given by themselves take precedence."""

    if TYPE_CHECKING:
        # What the generated constructor accepts, which is more than the types of the fields.
        def __init__(
            self,
            *,
            messages: MessagesInput,
            tools: ToolsInput = (),
            tool_choice: ToolChoice | str = ...,
            tool_choice_policy: ChoicePolicy | str = ChoicePolicy.AUTO,
            parallel_tool_calls: bool = True,
            response_schema: Mapping[str, Any] | None = None,
            model: str | None = None,
            max_tokens: int | None = None,
            temperature: float | None = None,
            top_p: float | None = None,
            top_k: int | None = None,
            seed: int | None = None,
            stop: str | Iterable[str] = (),
            shows_wire: bool = False,
            ignored: Iterable[str] = (),
            client_body: ClientBody | None = None,
            excluded_calls: Iterable[FunctionCall] = (),
            engine_options: Mapping[str, Any] = ...,
            described_tools: frozenset[str] = frozenset(),
            tool_search: DeclaredSearch | None = None,
            on_progress: Callable[[], None] | None = None,
            on_prompt: Callable[[str], None] | None = None,
            params: GenerateParams | None = None,
        ) -> None: ...

    def __post_init__(self, params: GenerateParams | None) -> None:
        if params is not None:
            self._take_params(params)
        self._convert("messages", to_messages(self.messages))
        self._convert("tools", to_tools(self.tools))
        if type(self.tool_choice) is not ToolChoice:
            self._convert("tool_choice", _choice_of(self.tool_choice, self.tools))
        if type(self.tool_choice_policy) is not ChoicePolicy:
            policy = to_enum(ChoicePolicy, self.tool_choice_policy, "tool_choice_policy")
            self._convert("tool_choice_policy", policy)
        if self.response_schema is not None and type(self.response_schema) is not dict:
            self._convert("response_schema", _schema_of(self.response_schema))
        if self.stop or type(self.stop) is not tuple:
            self._convert("stop", to_texts(self.stop, "stop"))
        if type(self.ignored) is not tuple:
            self._convert("ignored", to_texts(self.ignored, "ignored"))
        if type(self.excluded_calls) is not tuple:
            self._convert("excluded_calls", tuple(self.excluded_calls))
        if self.max_tokens is not None:
            _require_count("max_tokens", self.max_tokens, 1)
        if self.top_k is not None:
            # Engines write "no limit" as 0 or -1.
            _require_count("top_k", self.top_k, -1)
        if self.temperature is not None:
            _require_number("temperature", self.temperature, 0.0, None)
        if self.top_p is not None:
            _require_number("top_p", self.top_p, 0.0, 1.0)
        if self.seed is not None and type(self.seed) is not int:
            raise DefinitionError(f"seed must be a whole number, not {self.seed!r}", hint="Write seed=1.", param="seed")
        _require_boolean("parallel_tool_calls", self.parallel_tool_calls)
        _require_boolean("shows_wire", self.shows_wire)
        if self.model is not None and not isinstance(cast("object", self.model), str):
            raise DefinitionError(
                f"model must be a name, not {self.model!r:.60}", hint="Omit model to use the engine's.", param="model"
            )

    def _take_params(self, params: object) -> None:
        names = GenerateParams.__annotations__
        known = f"Known: {', '.join(names)}."
        if not isinstance(params, Mapping):
            raise DefinitionError(f"params must be a dict, not {params!r:.60}", hint=known, param="params")
        for name, value in cast("Mapping[str, object]", params).items():
            if name not in names:
                raise DefinitionError(f"params has an unknown {name!r}", hint=known, param="params")
            # 0 is a value that was given.
            if getattr(self, name) in (None, ()):
                object.__setattr__(self, name, value)

    def _convert(self, field: str, value: object) -> None:
        if value is not getattr(self, field):
            object.__setattr__(self, field, value)

    @property
    def choice(self) -> ToolChoice:
        """The choice with the policy applied, which engines use. NONE and REQUIRED are never weakened."""
        is_open = self.tool_choice.mode is ChoiceMode.AUTO and self.tools
        if not is_open or self.tool_choice_policy is ChoicePolicy.AUTO:
            return self.tool_choice
        if self.tool_choice_policy is ChoicePolicy.REQUIRED_FIRST_HOP and self._has_result():
            return self.tool_choice
        return replace(self.tool_choice, mode=ChoiceMode.REQUIRED)

    def _has_result(self) -> bool:
        """Whether there is a result after the last user message."""
        for message in reversed(self.messages):
            if message.results:
                return True
            if message.role is Role.USER:
                return False
        return False


def canonical_call(call: FunctionCall) -> tuple[str, str]:
    """The tool and the canonical arguments of a call: equal for two calls that mean the same."""
    try:
        return call.name, canonical(loads(call.arguments))
    except (ValueError, RecursionError):
        return call.name, call.arguments


def _choice_of(value: object, tools: tuple[ToolDefinition, ...]) -> ToolChoice:
    """Convert "auto", "none", "required" or the name of a tool."""
    names = ", ".join(repr(tool.name) for tool in tools)
    hint = f'Write "auto", "none", "required" or the name of a tool{f": {names}" if names else ""}.'
    if not isinstance(value, str):
        raise DefinitionError(
            f"tool_choice cannot be {value!r:.60}",
            hint=f"{hint} For several: ToolChoice.allowed([...]).",
            param="tool_choice",
        )
    if value in set(ChoiceMode):
        return ToolChoice(ChoiceMode(value))
    # A request without tools may get them later, as in a conversation; then the engine checks the name.
    if tools and all(tool.name != value for tool in tools):
        raise DefinitionError(f"tool_choice names an unknown tool: {value}", hint=hint, param="tool_choice")
    return ToolChoice.one(value)


def _schema_of(value: object) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    raise DefinitionError(
        f"response_schema must be a JSON Schema, not {value!r:.60}",
        hint="Write a dict, or pass a class as response_type to engine.ask.",
    )


def _require_boolean(name: str, value: object) -> None:
    if type(value) is not bool:
        raise DefinitionError(
            f"{name} must be True or False, not {value!r:.60}", hint=f"Write {name}=True.", param=name
        )


def _require_count(name: str, value: object, least: int) -> None:
    if type(value) is not int or value < least:
        raise DefinitionError(
            f"{name} must be a whole number of {least} or more, not {value!r}",
            hint=f"Omit {name} to use the engine's default.",
            param=name,
        )


def _require_number(name: str, value: Any, least: float, most: float | None) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # A comparison with NaN is false. JSON has no infinity, so no engine can be sent one.
    if not is_number or not least <= value < inf or (most is not None and value > most):
        bounds = f"{least:g} or more" if most is None else f"between {least:g} and {most:g}"
        raise DefinitionError(
            f"{name} must be a number {bounds}, not {value!r}",
            hint=f"Omit {name} to use the engine's default.",
            param=name,
        )
