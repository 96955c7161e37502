"""The specification's spelling: names from the documents that Ferrule was written for, where Ferrule has others.

Each is a thin layer over what the rest of Ferrule calls differently. New programs need none of them; a program that was
written from the specification runs with them. `docs/reference/specification.md` maps every name.

Example:
    from ferrule.specification import Tool, ToolParser

    weather = Tool.function("get_weather", "The weather of a city.").param("city", "string", "Its name", True).build()
    for call in ToolParser().parse('<tool_call>{"name": "get_weather", "arguments": {"city": "Rome"}}</tool_call>'):
        print(call.function.name, call.function.arguments)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from ferrule.core.call import ToolCall
from ferrule.core.conversion import ToolsInput, to_tool, to_tools
from ferrule.core.message import ChatMessage, Role
from ferrule.core.request import GenerateParams, ToolCallRequest, ToolChoice
from ferrule.core.tool import ToolDefinition, ToolDefinitionBuilder
from ferrule.engines.engine import Engine
from ferrule.engines.sync import run
from ferrule.errors import DefinitionError
from ferrule.rules.cache import RuleKey, rule_key
from ferrule.rules.gbnf import emit_gbnf
from ferrule.rules.logit_processor import LogitProcessor as RuleProcessor
from ferrule.rules.logit_processor import RequestState
from ferrule.rules.rule import Rule
from ferrule.rules.vocabulary import Vocabulary
from ferrule.run.hooks import Hook
from ferrule.run.small_model_hooks import small_model_hooks
from ferrule.wire.format import Format
from ferrule.wire.parser import parse
from ferrule.wire.prompt import explained_conversation
from ferrule.wire.registry import ALIASES, all_formats, get_format, preset, register
from ferrule.wire.rule_builder import ReasoningMode, bind

__all__ = [
    "DETECTORS",
    "TOOLS_DEFAULT_SET",
    "ConstrainedToolGenerator",
    "GenerateParams",
    "GenericXmlToolTemplate",
    "Grammar",
    "GrammarCache",
    "GrammarCompiler",
    "Llama31ToolTemplate",
    "LogitProcessor",
    "MistralToolTemplate",
    "QwenToolTemplate",
    "Tool",
    "ToolCallingTemplate",
    "ToolParser",
    "default_slm_hooks",
    "parse_tool_calls_from_content",
    "register_detector",
    "reply_or_tool_grammar",
    "single_tool_grammar",
    "tool_call_grammar",
]

_DEFAULT_FORMAT = "hermes"


TOOLS_DEFAULT_SET = ("search_corpus", "list_corpora", "translate", "list_marketplace")
"""The specification's default for the setting `tools_default_set`: four of the seven default tools."""


class ToolCallingTemplate:
    """A prompt in one family's markup, written without the checkpoint's own chat template.

    Engines use the checkpoint's template, which models follow better. This is for a program that has only the text.
    """

    format_name: ClassVar[str] = "generic_xml"
    is_native: ClassVar[bool] = False
    turns: ClassVar[Mapping[Role, str]] = {}
    """How a message of a role is written, with `{}` for its text; others are written as `role: text`."""
    opening: ClassVar[str] = ""
    """What opens the model's own turn."""

    @property
    def format(self) -> Format:
        return get_format(self.format_name)

    def format_with_tools(
        self, messages: Sequence[ChatMessage], tools: ToolsInput, tool_choice: ToolChoice = ToolChoice.Auto
    ) -> str:
        """Return the prompt, with the tools that the choice allows described in it."""
        offered = tool_choice.select_tools(to_tools(tools))
        plain = explained_conversation(self.format, messages, offered).messages
        return "".join(self._turn(message) for message in plain) + self.opening

    def parse_tool_calls(self, output: str, tools: ToolsInput | None = None) -> list[ToolCall]:
        """Return the complete calls in a model's output."""
        return list(parse(self.format, output, None if tools is None else to_tools(tools)).calls)

    def has_native_support(self) -> bool:
        """Whether models of this family were trained on the format."""
        return self.is_native

    def _turn(self, message: ChatMessage) -> str:
        shape = self.turns.get(message.role)
        return f"{message.role}: {message.content}\n" if shape is None else shape.replace("{}", message.content)


class GenericXmlToolTemplate(ToolCallingTemplate):
    """For models without a format of their own: XML tags around a name and JSON arguments."""

    opening = "assistant: "


def _headers(*roles: Role) -> dict[Role, str]:
    return {role: f"<|start_header_id|>{role}<|end_header_id|>\n\n{{}}<|eot_id|>" for role in roles}


class Llama31ToolTemplate(ToolCallingTemplate):
    """Llama 3.1 and later."""

    format_name = "llama3"
    is_native = True
    turns = _headers(Role.SYSTEM, Role.USER, Role.ASSISTANT)
    opening = "<|start_header_id|>assistant<|end_header_id|>\n\n"


class MistralToolTemplate(ToolCallingTemplate):
    """Mistral 7B and later."""

    format_name = "mistral_v3"
    is_native = True
    turns: ClassVar[Mapping[Role, str]] = {
        Role.SYSTEM: "[INST] {} [/INST]",
        Role.USER: "[INST] {} [/INST]",
        Role.ASSISTANT: "{}</s>",
    }


class QwenToolTemplate(ToolCallingTemplate):
    """Qwen 2.5 and later."""

    format_name = "hermes"
    is_native = True
    turns: ClassVar[Mapping[Role, str]] = {
        role: f"<|im_start|>{role}\n{{}}<|im_end|>\n" for role in (Role.SYSTEM, Role.USER, Role.ASSISTANT)
    }
    opening = "<|im_start|>assistant\n"


@dataclass(frozen=True, slots=True)
class Grammar:
    """A grammar that admits only valid calls. `rules` is its text in GBNF."""

    rules: str
    rule: Rule = field(repr=False)


def _grammar(tools: ToolsInput, choice: ToolChoice, format: str) -> Grammar:
    rule = bind(get_format(format), to_tools(tools), choice, reasoning=ReasoningMode.OFF)
    return Grammar(emit_gbnf(rule).text, rule)


def tool_call_grammar(tools: ToolsInput, format: str = _DEFAULT_FORMAT) -> Grammar:
    """Return the grammar of `tool_choice="required"`: the model must call a tool."""
    return _grammar(tools, ToolChoice.required(), format)


def single_tool_grammar(tool: Any, format: str = _DEFAULT_FORMAT) -> Grammar:
    """Return the grammar of `tool_choice={"name": ...}`: the model must call this tool."""
    definition = to_tool(tool)
    return _grammar([definition], ToolChoice.one(definition.name), format)


def reply_or_tool_grammar(tools: ToolsInput, format: str = _DEFAULT_FORMAT) -> Grammar:
    """Return the grammar of `tool_choice="auto"`: the model may answer, and its calls are valid."""
    return _grammar(tools, ToolChoice.auto(), format)


class GrammarCompiler:
    """Compiles tools into a grammar."""

    def __init__(self, format: str = _DEFAULT_FORMAT) -> None:
        self._format = format

    def compile_tool_schema(self, tools: ToolsInput) -> Grammar:
        return tool_call_grammar(tools, self._format)


class GrammarCache:
    """Grammars by tools and choice: a second request with equal tools compiles nothing."""

    def __init__(self, format: str = _DEFAULT_FORMAT) -> None:
        self._format = format
        self._grammars: dict[RuleKey, Grammar] = {}

    def __len__(self) -> int:
        return len(self._grammars)

    def get(self, tools: ToolsInput, choice: ToolChoice = ToolChoice.Auto) -> Grammar:
        definitions = to_tools(tools)
        key = rule_key(self._format, definitions, choice, "gbnf")
        if key not in self._grammars:
            self._grammars[key] = _grammar(definitions, choice, self._format)
        return self._grammars[key]


class LogitProcessor:
    """The state of one request. `ferrule.engines.LogitProcessor` is the form that compiles once for many requests."""

    def __init__(self) -> None:
        self._state: RequestState | None = None

    def process_logits(self, logits: Any, grammar: Grammar, tokenizer: Vocabulary) -> None:
        """Mask, in place, every token that cannot come next."""
        if self._state is None:
            self._state = RuleProcessor(tokenizer, grammar.rule).start()
        self._state.mask(logits)

    def accept(self, token: int) -> bool:
        """Consume the token that was chosen; returns False if it is not allowed."""
        if self._state is None:
            raise DefinitionError("no logits were processed yet", hint="Call process_logits first.")
        return self._state.advance(token)


class ConstrainedToolGenerator:
    """Makes calls that parse, name an offered tool and fit its schema, with any engine.

    `ferrule.engines.ConstrainedToolGenerator` is the form for code that has the logits.
    """

    def generate_tool_calls(
        self,
        model: Engine,
        prompt: str | Sequence[ChatMessage],
        tools: ToolsInput,
        params: GenerateParams | None = None,
    ) -> list[ToolCall]:
        request = ToolCallRequest(messages=prompt, tools=tools, tool_choice=ToolChoice.required(), params=params)
        return list(run(model.generate_with_tools(request)).calls)


@dataclass(frozen=True, slots=True)
class Tool:
    """A builder of definitions with one line for each parameter."""

    builder: ToolDefinitionBuilder

    @staticmethod
    def function(name: str, description: str = "") -> Tool:
        return Tool(ToolDefinition.build(name).description(description))

    def param(self, name: str, type: str, description: str = "", required: bool = False) -> Tool:
        """Add a parameter. `type` is the name of a JSON Schema type."""
        return Tool(self.builder.parameter(name, {"type": type}, description, required=required))

    def build(self) -> ToolDefinition:
        return self.builder.done()


class ToolParser:
    """Reads calls in tags, as bare JSON objects and in code blocks."""

    _FORMATS = ("hermes", "bare_json", "fenced_json")

    def __init__(self, formats: Iterable[str] = _FORMATS) -> None:
        self._format = preset("parser", formats)

    def parse(self, output: str, tools: ToolsInput | None = None) -> list[ToolCall]:
        return list(parse(self._format, output, None if tools is None else to_tools(tools)).calls)


def default_slm_hooks() -> list[Hook]:
    """Return the hooks for small models, as `ferrule.hooks.small_model_hooks` does."""
    return list(small_model_hooks())


class _Detectors(Mapping[str, Format]):
    """Every format by name, the specification's names included."""

    def __getitem__(self, name: str) -> Format:
        if name not in {*all_formats(), *ALIASES}:
            raise KeyError(name)
        return get_format(name)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*all_formats(), *ALIASES}))

    def __len__(self) -> int:
        return len({*all_formats(), *ALIASES})


DETECTORS: Mapping[str, Format] = _Detectors()
"""The formats by name. A name that is not among them is an error where it is used, not where text is parsed."""


def register_detector(name: str, detector: Format) -> Format:
    """Register a format under a name. A detector is a whole format, so that it can be rendered and constrained too."""
    return register(replace(detector, name=name))


def parse_tool_calls_from_content(
    content: str, tools: ToolsInput | None = None, parsers: Iterable[str] = (_DEFAULT_FORMAT,)
) -> tuple[list[dict[str, Any]], str, bool]:
    """Return the calls in OpenAI's form, the text without reasoning, and whether there were calls in the text."""
    reply = parse(preset("content", parsers), content, None if tools is None else to_tools(tools))
    return [call.as_openai() for call in reply.calls], reply.text.strip(), bool(reply.calls)
