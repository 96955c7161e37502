"""The defaults of a request, and the policy for its tool choice."""

from __future__ import annotations

from dataclasses import fields

import pytest

from ferrule import ChatMessage, ToolCall, ToolCallRequest, ToolChoice, ToolDefinition
from ferrule.core.request import ChoicePolicy

HELLO = (ChatMessage.user("hello"),)


def test_a_request_needs_messages_and_nothing_else() -> None:
    request = ToolCallRequest(messages=HELLO)
    assert request.messages == HELLO
    assert request.tools == ()
    assert request.tool_choice == ToolChoice.auto()
    assert request.parallel_tool_calls is True
    assert request.stop == ()


@pytest.mark.parametrize(
    "parameter", ["response_schema", "model", "max_tokens", "temperature", "top_p", "top_k", "seed"]
)
def test_a_generation_parameter_left_out_is_the_engines_own(parameter: str) -> None:
    assert getattr(ToolCallRequest(messages=HELLO), parameter) is None


def test_generation_parameters_stand_flat_beside_the_messages() -> None:
    request = ToolCallRequest(messages=HELLO, tools=(ToolDefinition("ping"),), temperature=0.0, max_tokens=5)
    assert (request.temperature, request.max_tokens, request.tools[0].name) == (0.0, 5, "ping")


def test_fields_are_given_by_name_only() -> None:
    assert all(field.kw_only for field in fields(ToolCallRequest))


PING = ToolDefinition("ping")
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
