"""A generator with random logits still makes only valid calls."""

from __future__ import annotations

import jsonschema
import numpy as np
import pytest
from numpy.typing import NDArray

from ferrule import FinishReason, JsonSchema, ToolChoice, ToolDefinition
from ferrule.engines.constrained_generator import ConstrainedToolGenerator
from ferrule.formats import get_format
from ferrule.rules.vocabulary import Vocabulary

BYTES = Vocabulary([*(bytes([n]) for n in range(256)), b"</end>"], {}, end=256)
WEATHER = (
    ToolDefinition.build("get_weather")
    .parameter("city", JsonSchema.string(maxLength=12), required=True)
    .parameter("unit", JsonSchema.enum(["celsius", "fahrenheit"]), required=True)
    .done()
)
PING = ToolDefinition("ping", "", {"type": "object", "properties": {}, "additionalProperties": False})
CLOSED = ToolDefinition("get_weather", "", {**WEATHER.parameters, "additionalProperties": False})
TOOLS = (CLOSED, PING)


def noise(seed: int):
    rng = np.random.default_rng(seed)

    def next_logits(ids: list[int]) -> NDArray[np.float64]:
        return rng.normal(size=len(BYTES))

    return next_logits


@pytest.mark.parametrize(
    "name", ["hermes", "qwen_xml", "llama3", "mistral_v13", "pythonic", "generic_xml", "gemma4", "harmony"]
)
@pytest.mark.parametrize("seed", range(6))
def test_noise_makes_valid_calls(name: str, seed: int) -> None:
    generator = ConstrainedToolGenerator(noise(seed), BYTES, get_format(name))
    reply = generator.generate([], TOOLS, parallel=False, max_tokens=1500)
    if reply.finish_reason is FinishReason.LENGTH:
        assert not reply.calls
        return
    (call,) = reply.calls
    schema = {tool.name: tool.parameters for tool in TOOLS}[call.name]
    jsonschema.Draft202012Validator(schema).validate(call.arguments)


def test_a_named_choice_calls_that_tool() -> None:
    generator = ConstrainedToolGenerator(noise(1), BYTES, get_format("hermes"))
    assert [call.name for call in generator.generate([], TOOLS, ToolChoice.one("ping"), parallel=False).calls] == [
        "ping"
    ]


def test_a_budget_that_is_too_small_gives_no_calls() -> None:
    generator = ConstrainedToolGenerator(noise(1), BYTES, get_format("hermes"))
    reply = generator.generate([], TOOLS, max_tokens=20)
    assert reply.finish_reason is FinishReason.LENGTH
    assert not reply.calls
