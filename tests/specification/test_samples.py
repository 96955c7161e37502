"""The samples of the specification, in Python and with its own names: docs/reference/specification.md."""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest

import ferrule
from ferrule import (
    ChatMessage,
    FunctionCall,
    JsonSchema,
    Reply,
    ToolCall,
    ToolCallRequest,
    ToolChoice,
    ToolConversation,
    ToolDefinition,
    ToolResult,
)
from ferrule.core.request import ChoicePolicy
from ferrule.engines import Vocabulary
from ferrule.formats import emit_lark, get_format, parse
from ferrule.rules.matcher import ByteMatcher
from ferrule.specification import (
    DETECTORS,
    ConstrainedToolGenerator,
    GenerateParams,
    GenericXmlToolTemplate,
    GrammarCache,
    GrammarCompiler,
    Llama31ToolTemplate,
    LogitProcessor,
    MistralToolTemplate,
    QwenToolTemplate,
    Tool,
    ToolCallingTemplate,
    ToolParser,
    parse_tool_calls_from_content,
    register_detector,
    reply_or_tool_grammar,
    single_tool_grammar,
    tool_call_grammar,
)
from ferrule.testing import FakeEngine
from ferrule.wire import registry

WEATHER = (
    ToolDefinition.new("get_weather")
    .description("Get current weather for a location")
    .parameter("location", JsonSchema.string())
    .parameter("units", JsonSchema.enum_values(["celsius", "fahrenheit"]))
    .required(["location"])
)
CALL = ToolCall(id="1", name="get_weather", arguments={"location": "SF"})


# ADR-010, phase 1: definitions, requests, replies.


def test_a_tool_is_built_and_passed_without_a_last_step() -> None:
    request = ToolCallRequest(
        messages=[ChatMessage.user("What's the weather in San Francisco?")],
        tools=[WEATHER],
        tool_choice=ToolChoice.Auto,
        parallel_tool_calls=True,
        params=GenerateParams(),
    )
    response = FakeEngine([Reply.of(CALL)]).generate(request)
    assert [(call.function.name, call.function.arguments) for call in response.tool_calls] == [
        ("get_weather", '{"location": "SF"}')
    ]
    assert request.tools[0].required == ("location",)


def test_a_definition_may_be_written_out() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    written = ToolDefinition(name="x", description="d", parameters=schema, required=["a"])
    assert written.parameters == {**schema, "required": ["a"]}
    assert "required" not in schema
    bound = ToolDefinition(
        name="s", description="d", parameters_schema=schema, bound_capability="rag.query", bound_version=(1, 0)
    )
    assert (bound.bound_version, bound.parameters_schema) == ("1.0", schema)


def test_choices_have_the_specifications_names() -> None:
    assert ToolChoice.Auto == ToolChoice.auto()
    assert ToolChoice.Required == ToolChoice.required()
    assert ToolChoice.Specific("x") == ToolChoice.specific("x") == ToolChoice.one("x")


def test_generation_parameters_may_be_one_value() -> None:
    params = GenerateParams(max_tokens=7, temperature=0.0, stop=["end"])
    request = ToolCallRequest(messages="x", params=params, max_tokens=5)
    assert (request.max_tokens, request.temperature, request.stop) == (5, 0.0, ("end",))
    with pytest.raises(ferrule.DefinitionError, match="params has an unknown 'max'"):
        ToolCallRequest(messages="x", params={"max": 1})  # type: ignore[typeddict-unknown-key]  # pyright: ignore[reportArgumentType]


def test_messages_calls_and_results_may_be_written_by_field() -> None:
    assert ChatMessage(role="user", content="x") == ChatMessage.user("x")
    assert ChatMessage(role="assistant", content=None, tool_calls=[CALL]) == ChatMessage.assistant("", [CALL])
    answer = ChatMessage(role="tool", content="sunny", tool_call_id="1")
    assert (answer.tool_call_id, answer.results[0].text) == ("1", "sunny")
    assert ToolCall(id="1", type="function", function=FunctionCall(name="f", arguments={"a": 1})).arguments == {"a": 1}
    assert ToolResult(tool_call_id="1", output="x") == ToolResult("1", "", "x")
    assert ToolResult(tool_call_id="1", content="x").output == "x"
    assert Reply.of("hello").content == "hello"
    assert Reply.of(CALL).content is None


# ADR-010, chat templates.


TEMPLATES = [Llama31ToolTemplate, MistralToolTemplate, QwenToolTemplate, GenericXmlToolTemplate]


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_template_formats_a_prompt_and_parses_what_it_asks_for(kind: type[ToolCallingTemplate]) -> None:
    template = kind()
    prompt = template.format_with_tools([ChatMessage.user("Hello?")], [WEATHER], ToolChoice.Auto)
    assert prompt.index("get_weather") < prompt.index("Hello?")
    # The prompt shows how a call is written; a model that copies the example makes one.
    (example,) = template.parse_tool_calls(prompt.partition("write exactly in this way:\n")[2].partition("Hello?")[0])
    assert example.name == "example_tool"
    assert template.has_native_support() is (kind is not GenericXmlToolTemplate)


def test_the_specifications_texts_parse() -> None:
    xml = '<tool_call>\n<name>get_weather</name>\n<arguments>{"location": "SF"}</arguments>\n</tool_call>'
    llama = '<|python_tag|>{"name": "get_weather", "arguments": {"location": "SF"}}<|eom_id|>'
    mistral = '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"location": "SF"}}]'
    texts = {GenericXmlToolTemplate: xml, Llama31ToolTemplate: llama, MistralToolTemplate: mistral}
    for kind, text in texts.items():
        (call,) = kind().parse_tool_calls(text, [WEATHER])
        assert (call.function.name, call.arguments) == ("get_weather", {"location": "SF"})


# ADR-010, phase 2: constrained generation.


def test_a_generator_makes_calls_of_offered_tools() -> None:
    tools = [WEATHER.done()]
    backend = FakeEngine([Reply.of(CALL)])
    calls = ConstrainedToolGenerator().generate_tool_calls(backend, "What's the weather?", tools, GenerateParams())
    assert calls
    assert all(any(tool.name == call.function.name for tool in tools) for call in calls)


def test_grammars_admit_calls_and_refuse_everything_else() -> None:
    call = '<tool_call>\n{"name": "get_weather", "arguments": {"location": "SF"}}\n</tool_call>'
    must_call = tool_call_grammar([WEATHER])
    assert GrammarCompiler().compile_tool_schema([WEATHER]).rules == must_call.rules
    assert "::=" in must_call.rules
    may_answer, single = reply_or_tool_grammar([WEATHER]), single_tool_grammar(WEATHER)
    for grammar in (must_call, may_answer, single):
        assert ByteMatcher(emit_lark(grammar.rule)).accepts(call)
        assert not ByteMatcher(emit_lark(grammar.rule)).accepts(call.replace("location", "place"))
    assert ByteMatcher(emit_lark(may_answer.rule)).accepts("It is sunny.")
    assert not ByteMatcher(emit_lark(must_call.rule)).accepts("It is sunny.")


def test_a_cache_compiles_equal_tools_once() -> None:
    cache = GrammarCache()
    assert cache.get([WEATHER]) is cache.get([WEATHER.done()])
    assert cache.get([WEATHER], ToolChoice.Required) is not cache.get([WEATHER])
    assert len(cache) == 2


def test_a_processor_masks_until_the_call_is_written() -> None:
    vocabulary = Vocabulary([*(bytes([number]) for number in range(256)), b"<end>"], {"<end>": 256}, 256)
    processor = LogitProcessor()
    with pytest.raises(ferrule.DefinitionError):
        processor.accept(1)
    grammar = tool_call_grammar([WEATHER])
    logits = np.zeros(len(vocabulary), dtype=np.float32)
    processor.process_logits(logits, grammar, vocabulary)
    allowed = [token for token in range(len(vocabulary)) if np.isfinite(logits[token])]
    assert [vocabulary.decode([token]) for token in allowed] == ["<"]
    assert processor.accept(allowed[0])


# ADR-010, phase 3: conversations.


def test_a_conversation_takes_the_results_of_its_calls() -> None:
    flights = ToolDefinition.new("search_flights").parameter("destination", JsonSchema.string(), required=True)
    call = ToolCall(id="c1", name="search_flights", arguments={"destination": "NYC"})
    conversation = ToolConversation(FakeEngine([Reply.of(call), Reply.of("There is one at 10am")]), [flights])
    turn = conversation.send_message_sync("Book a flight to NYC")
    output = json.dumps({"flights": [{"price": 250, "time": "10am"}]})
    results = [ToolResult(tool_call_id=turn.tool_calls[0].id, output=output)]
    assert conversation.submit_tool_results_sync(results).content == "There is one at 10am"
    assert conversation.messages[2].results[0].name == "search_flights"


def test_a_conversation_is_asynchronous_without_the_suffix() -> None:
    async def story() -> str | None:
        conversation = ToolConversation(FakeEngine([Reply.of("Hello.")]), [WEATHER])
        return (await conversation.send_message("Hello?")).content

    assert asyncio.run(story()) == "Hello."


# vLLM.rs: the builder and the parser.


def test_a_tool_is_built_with_one_line_for_each_parameter() -> None:
    weather = (
        Tool.function("get_weather", "Get weather for a location")
        .param("location", "string", "City name", True)
        .param("unit", "string", "Temperature unit", False)
        .build()
    )
    assert weather.required == ("location",)
    assert weather.properties["unit"] == {"type": "string", "description": "Temperature unit"}


def test_a_parser_reads_tags_objects_and_code_blocks() -> None:
    call = '{"name": "get_weather", "arguments": {"location": "Tokyo"}}'
    texts = [f"I'll check the weather.\n<tool_call>\n{call}\n</tool_call>", call, f"```json\n{call}\n```"]
    for text in texts:
        (read,) = ToolParser().parse(text)
        assert (read.function.name, read.arguments) == ("get_weather", {"location": "Tokyo"})


# EdgeVox: detectors, reasoning, policies.


def test_calls_inside_reasoning_are_found_and_the_reasoning_is_not_shown() -> None:
    raw = '<think>Let me check.\n<tool_call>{"name":"get_time","arguments":{}}</tool_call>\n</think>One moment.'
    calls, cleaned, fallback = parse_tool_calls_from_content(raw)
    assert [(one["function"]["name"], one["function"]["arguments"]) for one in calls] == [("get_time", "{}")]
    assert (cleaned, fallback) == ("One moment.", True)


DETECTED = {
    "hermes": '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>',
    "qwen25": '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>',
    "llama32": '<|python_tag|>{"name": "f", "parameters": {"a": 1}}',
    "mistral": '[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}, "id": "abcdefghi"}]',
    "pythonic": "[f(a=1)]",
    "xlam": '[{"name": "f", "arguments": {"a": 1}}]',
    "granite": '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>',
    "gemma": "<|tool_call>call:f{a:1}<tool_call|>",
}


@pytest.mark.parametrize("name", DETECTED)
def test_a_detector_reads_its_format(name: str) -> None:
    tool = ToolDefinition("f", parameters={"type": "object", "properties": {"a": {"type": "integer"}}})
    (call,) = parse(DETECTORS[name], DETECTED[name], [tool]).calls
    assert (call.name, call.arguments) == ("f", {"a": 1})
    assert get_format(name) is DETECTORS[name]


def test_mistrals_ids_are_kept() -> None:
    (call,) = parse(DETECTORS["mistral"], DETECTED["mistral"]).calls
    assert call.id == "abcdefghi"


def test_a_detector_is_registered_and_a_wrong_name_fails_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})
    register_detector("specified", get_format("hermes"))
    assert DETECTORS["specified"].name == "specified"
    assert len(DETECTORS) == len(list(DETECTORS))
    with pytest.raises(KeyError):
        DETECTORS["hermess"]
    with pytest.raises(ferrule.UnknownFormatError):
        parse_tool_calls_from_content("x", parsers=["hermess"])


@pytest.mark.parametrize("policy", list(ChoicePolicy))
def test_policies_may_be_written_as_strings(policy: ChoicePolicy) -> None:
    request = ToolCallRequest(messages="x", tools=[WEATHER], tool_choice_policy=policy.value)
    expected = ToolChoice.Auto if policy is ChoicePolicy.AUTO else ToolChoice.Required
    assert request.choice == expected
