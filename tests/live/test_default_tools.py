"""The seven default tools through the executor, over a real nats-server, to workers that do what they say."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Generator, Iterator
from typing import Any

import jsonschema
import pytest

from ferrule import FunctionCall, ToolCall, ToolDefinition, ToolExecutor, ToolResult
from ferrule.sources.bus.bus import Bus
from ferrule.sources.bus.subject import Capability
from ferrule.sources.default_tools import DEFAULT_TOOLS
from live.bus_parts import record_messages
from live.hearth_house import Hearth, hearth_at
from waiting import until

pytestmark = pytest.mark.live
TOOLS = {tool.name: tool for tool in DEFAULT_TOOLS}
_END = "the.end"
EACH = pytest.mark.parametrize("name", TOOLS)

# What each of them says to valid arguments: from files, a table, a board, the network, and the bytes of its samples.
ANSWERS: dict[str, tuple[dict[str, Any], Callable[[Any], bool]]] = {
    "search_corpus": (
        {"query": "boiler pressure", "corpus": "house", "limit": 1},
        lambda found: len(found) == 1 and "1.2 and 1.8 bar" in found[0]["text"],
    ),
    "list_corpora": ({}, lambda found: [one["corpus"] for one in found] == ["garden", "house"]),
    "translate": ({"text": "apples", "to": "de"}, lambda found: found == {"text": "Äpfel", "not_in_the_table": []}),
    "find_neighbour": (
        {"can": "trans."},
        lambda found: found == [{"neighbour": "kitchen", "can": ["trans.text@1.0"]}],
    ),
    "list_marketplace": ({"about": "nobody sells this 😀"}, lambda found: found == []),
    "describe_image": (
        {"file": "sunset.png"},
        lambda found: (
            (found["width"], found["height"]) == (120, 80)
            and [one["colour"] for one in found["colours"]] == ["orange", "blue"]
        ),
    ),
    "transcribe_audio": (
        {"file": "bell.wav"},
        lambda found: found["seconds"] == 2.5 and found["silences"] == [{"from": 1.0, "to": 1.5}],
    ),
}


@pytest.fixture(scope="module")
def hearth(tmp_path_factory: pytest.TempPathFactory) -> Generator[Hearth]:
    with hearth_at(tmp_path_factory.mktemp("hearth")) as house:
        yield house


def dispatched(hearth: Hearth, name: str, texts: list[str]) -> tuple[list[ToolResult], list[Any]]:
    """The result of each call, and the inputs that went over the bus to the tool's capability."""
    tool = TOOLS[name]
    capability = Capability.read(tool.bound_capability or "", tool.bound_version)

    async def work(bus: Bus) -> tuple[list[ToolResult], list[Any]]:
        subject = capability.subject(bus.tenant)
        executor = ToolExecutor(bus, DEFAULT_TOOLS)
        assert {one["function"]["name"] for one in executor.native_definitions} == set(TOOLS)
        async with record_messages(hearth.url) as messages:
            results = [
                await executor.dispatch(ToolCall(f"{name}-{at}", FunctionCall(name, text)))
                for at, text in enumerate(texts)
            ]
            # Messages of one connection come in order: when this one has come, all have.
            assert await bus.connection.send(_END)
            await until(lambda: any(message.subject == _END for message in messages))
        assert not executor.notices
        # To the capability, or to one worker that serves it.
        asked = [message for message in messages if f"{message.subject}.".startswith(f"{subject}.")]
        return results, [json.loads(message.data)["input"] for message in asked]

    return hearth.on_bus(work)


def test_the_table_has_every_default_tool() -> None:
    assert len(TOOLS) == 7
    assert set(ANSWERS) == set(TOOLS)


@EACH
def test_a_valid_call_reaches_the_bound_capability_and_its_answer_comes_back(hearth: Hearth, name: str) -> None:
    arguments, is_right = ANSWERS[name]
    (result,), inputs = dispatched(hearth, name, [json.dumps(arguments)])
    assert (result.tool_call_id, result.name, result.is_error) == (f"{name}-0", name, False), result
    assert is_right(result.content), result.content
    assert inputs == [arguments]


# Values for each type of property, right and wrong; whether one is right is for the schema to say.
_VALUES: dict[str, tuple[Any, ...]] = {
    "string": ("de", "sunset.png", "", "x" * 6_000, "Deutsch", 7, None, True, ["de"], {"a": "de"}),
    "integer": (1, 20, 0, 21, -1, 1.5, "1", None, True, [1]),
}
_ABSENT = object()
_NO_OBJECTS = ("", "{", '{"file": "sunset.png"', "[]", "null", '"x"', "7", "{'query': 'x'}", '{"query": NaN}', "}{")


def combinations(tool: ToolDefinition) -> Iterator[dict[str, Any]]:
    """Every combination of values for its properties, and of leaving them out."""
    names = list(tool.properties)
    for values in itertools.product(*((*_VALUES[tool.properties[one]["type"]], _ABSENT) for one in names)):
        yield {one: value for one, value in zip(names, values, strict=True) if value is not _ABSENT}


@EACH
def test_what_does_not_fit_is_refused_with_what_is_wrong_and_nothing_is_sent(hearth: Hearth, name: str) -> None:
    """Another validator says what fits. A valid call of the list may fail in the tool, but it is sent."""
    validator = jsonschema.Draft202012Validator(TOOLS[name].parameters)
    tried = list(combinations(TOOLS[name]))
    invalid = [one for one in tried if not validator.is_valid(one)]
    results, inputs = dispatched(hearth, name, [*map(json.dumps, invalid), *_NO_OBJECTS])
    assert len(results) >= len(_NO_OBJECTS) + (name != "list_corpora")
    for result in results:
        assert result.is_error, result
        assert str(result.content).startswith("invalid_arguments: "), result
        assert len(str(result.content)) > len("invalid_arguments: "), result
    assert inputs == []


@EACH
def test_what_fits_is_sent_once_and_never_refused_as_invalid(hearth: Hearth, name: str) -> None:
    validator = jsonschema.Draft202012Validator(TOOLS[name].parameters)
    valid = [one for one in combinations(TOOLS[name]) if validator.is_valid(one)]
    assert valid
    results, inputs = dispatched(hearth, name, [*map(json.dumps, valid)])
    assert not [result for result in results if str(result.content).startswith("invalid_arguments: ")]
    assert inputs == valid


@EACH
def test_what_only_the_workers_own_schema_refuses_is_reported_in_the_same_way(hearth: Hearth, name: str) -> None:
    """The definitions are open, and the workers' functions take no other argument."""
    arguments = {**ANSWERS[name][0], "surplus": 1}
    (result,), inputs = dispatched(hearth, name, [json.dumps(arguments)])
    assert inputs == [arguments]
    assert result.is_error
    assert str(result.content).startswith('invalid_arguments: /: unknown property "surplus"'), result


def test_a_tool_that_is_not_among_them_is_named_as_unknown(hearth: Hearth) -> None:
    async def work(bus: Bus) -> ToolResult:
        return await ToolExecutor(bus, DEFAULT_TOOLS).dispatch(ToolCall.of("post_to_market", {}, id="c"))

    result = hearth.on_bus(work)
    assert result.is_error
    assert all(name in str(result.content) for name in ("post_to_market", *TOOLS))
