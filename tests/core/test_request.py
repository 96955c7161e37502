"""The defaults of a request, and the policy for its tool choice."""

from __future__ import annotations

from dataclasses import fields, replace
from math import inf, nan
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ferrule import ChatMessage, DefinitionError, ToolCall, ToolCallRequest, ToolChoice, ToolDefinition
from ferrule.core.request import ChoicePolicy, GenerateParams

HELLO = (ChatMessage.user("hello"),)
PING = ToolDefinition("ping")

DEFAULTS: dict[str, Any] = {
    "tools": (),
    "tool_choice": ToolChoice.auto(),
    "tool_choice_policy": ChoicePolicy.AUTO,
    "parallel_tool_calls": True,
    "response_schema": None,
    "model": None,
    "max_tokens": None,
    "temperature": None,
    "top_p": None,
    "top_k": None,
    "seed": None,
    "stop": (),
    "shows_wire": False,
    "ignored": (),
    "client_body": None,
    "excluded_calls": (),
    "engine_options": {},
    "described_tools": frozenset(),
    "tool_search": None,
    "on_progress": None,
    "on_prompt": None,
}

# The values that each generation parameter may have, with the edges of its range.
_counts = st.sampled_from([1, 2, 2**31, 2**63]) | st.integers(1)
_fractions = st.sampled_from([0, 1, 0.0, -0.0, 1.0, 5e-324]) | st.floats(0, 1)
LEGAL: dict[str, st.SearchStrategy[Any]] = {
    "max_tokens": _counts,
    "temperature": _fractions | st.floats(0, allow_infinity=False) | st.integers(0, 100),
    "top_p": _fractions,
    "top_k": st.sampled_from([-1, 0]) | _counts,
    "seed": st.just(0) | st.integers(),
    "stop": st.lists(st.text(), max_size=3).map(tuple),
}
# What is wrong for every one of them, beside what is out of its range.
_JUNK = (True, False, "1", "", b"1", nan, inf, -inf, 1j, {}, {"a": 1}, [1], [None], (1,), object())
OUT_OF_RANGE: dict[str, tuple[Any, ...]] = {
    "max_tokens": (0, -1, -(2**70), 1.0, 1.5, []),
    "temperature": (-5e-324, -1, -(2**70), []),
    "top_p": (-5e-324, 1.0000000000000002, 2, []),
    "top_k": (-2, 1.0, []),
    "seed": (1.0, 0.5, []),
    "stop": (1, 0, None, ["END", 1]),
}


def junk_for(name: str) -> list[Any]:
    # An empty list is no stop, as an empty dict is, and a text is one.
    kinds = [value for value in _JUNK if name != "stop" or not isinstance(value, str | dict | bytes)]
    return [*kinds, *OUT_OF_RANGE[name]]


parameters = st.fixed_dictionaries({}, optional=LEGAL)


def refusal(**fields: Any) -> DefinitionError:
    with pytest.raises(DefinitionError) as caught:
        ToolCallRequest(messages=HELLO, **fields)
    return caught.value


def test_a_request_needs_messages_and_nothing_else() -> None:
    request = ToolCallRequest(messages=HELLO)
    assert {field.name: getattr(request, field.name) for field in fields(request)} == {"messages": HELLO, **DEFAULTS}
    with pytest.raises(TypeError, match="messages"):
        ToolCallRequest()  # pyright: ignore[reportCallIssue]


def test_the_lists_of_this_file_hold_every_generation_parameter() -> None:
    assert set(LEGAL) == set(OUT_OF_RANGE) == set(GenerateParams.__annotations__)


@given(parameters)
@example(dict.fromkeys(("temperature", "top_p", "top_k", "seed"), 0))
def test_generation_parameters_stand_flat_beside_the_messages(given: dict[str, Any]) -> None:
    request = ToolCallRequest(messages=HELLO, tools=(PING,), **given)
    kept = {name: getattr(request, name) for name in LEGAL}
    assert kept == {name: given.get(name, DEFAULTS[name]) for name in LEGAL}
    assert {name: type(value) for name, value in kept.items() if name in given} == {
        name: type(value) for name, value in given.items()
    }
    assert (request.messages, request.tools) == (HELLO, (PING,))


@given(parameters, parameters)
@example(dict.fromkeys(("temperature", "top_p", "top_k", "seed"), 0), {"temperature": 1.5, "top_p": 0.5, "seed": 9})
def test_parameters_given_by_themselves_take_precedence_over_params(
    given: dict[str, Any], params: dict[str, Any]
) -> None:
    # No stop is what a request has without one, so params may add some.
    given = {name: value for name, value in given.items() if value != ()}
    made = ToolCallRequest(messages=HELLO, params=GenerateParams(**params), **given)
    assert made == ToolCallRequest(messages=HELLO, **{**params, **given})
    assert made == replace(made)


@pytest.mark.parametrize("params", [5, [("seed", 1)], "seed", ("seed",)])
def test_params_that_are_no_dict_are_refused(params: Any) -> None:
    error = refusal(params=params)
    assert (error.param, "max_tokens" in error.hint) == ("params", True)


@pytest.mark.parametrize("by_params", [False, True])
@pytest.mark.parametrize("name", LEGAL)
def test_a_wrong_value_is_refused_by_name_and_with_what_to_write(name: str, by_params: bool) -> None:
    for value in junk_for(name):
        error = refusal(params={name: value}) if by_params else refusal(**{name: value})
        assert name in error.message, value
        assert name in error.hint, value
        if name != "stop":
            assert error.param == name, value


@pytest.mark.parametrize("name", ["max_tokens", "temperature", "top_p", "top_k", "seed"])
@given(value=st.integers() | st.floats() | st.none() | st.booleans() | st.text(max_size=3))
def test_any_value_is_kept_as_it_is_or_refused(name: str, value: Any) -> None:
    refused: list[DefinitionError] = []
    try:
        kept = [getattr(ToolCallRequest(messages=HELLO, **{name: value}), name)]
    except DefinitionError as error:
        refused, kept = [error], []
    assert [(error.param, bool(error.hint)) for error in refused] == ([] if kept else [(name, True)])
    assert all(each is value for each in kept)
    assert refused or value is None or (type(value) in (int, float) and -inf < value < inf)


@pytest.mark.parametrize("name", ["parallel_tool_calls", "shows_wire"])
@pytest.mark.parametrize("value", [None, 0, 1, "false", "no", []])
def test_a_switch_is_true_or_false_and_nothing_that_only_looks_like_it(name: str, value: Any) -> None:
    error = refusal(**{name: value})
    assert (error.param, name in error.message) == (name, True)


@pytest.mark.parametrize("value", [7, ["m"], b"m", True])
def test_a_model_that_is_no_name_is_refused(value: Any) -> None:
    assert refusal(model=value).param == "model"


def test_fields_are_given_by_name_only() -> None:
    assert all(field.kw_only for field in fields(ToolCallRequest))


CALLED = (ChatMessage.assistant(tool_calls=[ToolCall.of("ping", id="c1")]), ChatMessage.tool("c1", "pong", "ping"))


def effective_choice(policy: ChoicePolicy, *more: ChatMessage, choice: ToolChoice | None = None) -> ToolChoice:
    request = ToolCallRequest(
        messages=(*HELLO, *more), tools=(PING,), tool_choice=choice or ToolChoice.auto(), tool_choice_policy=policy
    )
    return request.choice


def test_the_first_hop_must_call_and_the_next_may_answer() -> None:
    policy = ChoicePolicy.REQUIRED_FIRST_HOP
    assert effective_choice(policy) == ToolChoice.required()
    assert effective_choice(policy, *CALLED) == ToolChoice.auto()
    assert effective_choice(policy, *CALLED, ChatMessage.user("and again?")) == ToolChoice.required()


def test_always_means_after_results_too() -> None:
    assert effective_choice(ChoicePolicy.REQUIRED_ALWAYS, *CALLED) == ToolChoice.required()


@pytest.mark.parametrize("choice", [ToolChoice.none(), ToolChoice.one("ping")])
@pytest.mark.parametrize("policy", list(ChoicePolicy))
def test_a_policy_never_changes_a_choice_that_is_not_auto(policy: ChoicePolicy, choice: ToolChoice) -> None:
    assert effective_choice(policy, choice=choice) == choice


def test_an_allowed_subset_stays_the_subset_when_it_becomes_required() -> None:
    assert effective_choice(ChoicePolicy.REQUIRED_ALWAYS, choice=ToolChoice.allowed(["ping"])) == ToolChoice.one("ping")


def test_without_tools_there_is_nothing_to_require() -> None:
    request = ToolCallRequest(messages=HELLO, tool_choice_policy=ChoicePolicy.REQUIRED_ALWAYS)
    assert request.choice == ToolChoice.auto()
