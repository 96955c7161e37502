"""The generation parameters of a request as fields of a JSON body, both ways."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ferrule import ChatMessage, DefinitionError, ToolCallRequest
from ferrule.core.request import GenerateParams
from ferrule.dialects.openai_chat.parameters import PARAMETERS
from ferrule.dialects.openai_chat.request_decoder import read_request
from ferrule.dialects.openai_chat.request_encoder import request_body

HELLO = [{"role": "user", "content": "Hello"}]
_fractions = st.sampled_from([0, 1, 0.0, 5e-324]) | st.floats(0, 1)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "max_completion_tokens": st.integers(1, 2**63),
    "temperature": _fractions | st.floats(0, 1e308) | st.integers(0, 100),
    "top_p": _fractions,
    "top_k": st.integers(-1, 2**31),
    "seed": st.integers(-(2**63), 2**63),
    "stop": st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"])), min_size=1, max_size=3),
    "parallel_tool_calls": st.just(False),
}
TOOLS = [{"type": "function", "function": {"name": "ping", "parameters": {"type": "object"}}}]


def read(fields: dict[str, Any]) -> ToolCallRequest:
    """The request of the bytes that a client would send."""
    text = json.dumps({"model": "m", "messages": HELLO, "tools": TOOLS, **fields})
    return read_request(json.loads(text))


def test_every_generation_parameter_is_a_field_of_the_body() -> None:
    assert {*PARAMETERS, "stop"} == set(GenerateParams.__annotations__)


@given(st.fixed_dictionaries({}, optional=FIELDS))
@example({"temperature": 0, "top_p": 0.0, "top_k": -1, "seed": 0})
def test_the_parameters_of_a_body_are_read_and_written_as_they_were(fields: dict[str, Any]) -> None:
    request = read(fields)
    written = json.loads(json.dumps(request_body(request, model="m", stream=False)))
    assert {name: written[name] for name in FIELDS if name in written} == fields
    assert read_request(written) == request


def test_a_body_of_nothing_but_messages_has_the_defaults_of_a_request() -> None:
    made = ToolCallRequest(messages=(ChatMessage.user("Hello"),), model="m")
    assert read_request({"model": "m", "messages": HELLO}) == made
    absent = dict.fromkeys([*FIELDS, "max_tokens", "tools", "tool_choice", "tool_choice_policy"])
    assert read_request({"model": "m", "messages": HELLO, **absent}) == made


WRONG: dict[str, list[Any]] = {
    "max_completion_tokens": [0, -1, 1.5, "9", True, [9], {}],
    "max_tokens": [0, -1, 1.5, "9", True, [9], {}],
    "temperature": [-0.1, "0", False, float("inf"), float("nan"), [0]],
    "top_p": [-0.1, 1.1, "1", True, {}],
    "top_k": [-2, 0.5, "4", True],
    "seed": [0.5, "1", True, [1]],
    "stop": [7, [7], {"a": "b"}, [["END"]], [None], True],
    "parallel_tool_calls": [0, "false", "no", [], {}],
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_parameter_of_a_body_is_refused_by_name_and_with_what_to_send(name: str) -> None:
    for value in WRONG[name]:
        with pytest.raises(DefinitionError) as caught:
            read({name: value})
        error = caught.value
        # A stop that is wrong is named by its place in the list.
        assert (error.param or "").partition("[")[0] == name, value
        assert error.message.startswith(name), value
        assert error.hint, value
