"""A choice that an API cannot express is expressed in another way or refused, never silently weakened."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.tools import PING, TAGS, WEATHER, make_request
from ferrule import ChoiceMode, DefinitionError, ToolChoice
from ferrule.engines.chat.api import ALL_CHOICES, ChatApi
from ferrule.engines.chat.engine import adapt_request, choice_kind, require_call
from ferrule.engines.ollama import ollama
from ferrule.engines.openai import openai
from ferrule.errors import UnsupportedError

TOOLS = (WEATHER, TAGS, PING)
NAMES = [tool.name for tool in TOOLS]
API = openai("m", url="http://127.0.0.1:1").api
some_names = st.lists(st.sampled_from(NAMES), min_size=1, unique=True)
choices = st.one_of(
    st.sampled_from([ToolChoice.auto(), ToolChoice.none(), ToolChoice.required()]),
    st.sampled_from(NAMES).map(ToolChoice.one),
    st.builds(ToolChoice.allowed, some_names, st.sampled_from([ChoiceMode.AUTO, ChoiceMode.REQUIRED])),
)
apis = st.frozensets(st.sampled_from(sorted(ALL_CHOICES))).map(lambda honours: replace(API, honours=honours))


@given(choices, apis)
def test_the_adapted_choice_allows_no_more_and_requires_no_less(choice: ToolChoice, api: ChatApi) -> None:
    request = make_request(tools=TOOLS, choice=choice)
    try:
        adapted = adapt_request(request, api).request
    except UnsupportedError:
        assert choice.mode is ChoiceMode.REQUIRED
        assert "required" not in api.honours
        return
    assert choice_kind(adapted.choice) in api.honours | {"auto"}
    assert adapted.choice.select_tools(adapted.tools) == choice.select_tools(TOOLS)
    if choice.mode is ChoiceMode.REQUIRED:
        assert adapted.choice.mode is ChoiceMode.REQUIRED


@given(choices, apis)
def test_a_note_reports_every_choice_that_was_expressed_in_another_way(choice: ToolChoice, api: ChatApi) -> None:
    try:
        adapted = adapt_request(make_request(tools=TOOLS, choice=choice), api)
    except UnsupportedError:
        return
    assert bool(adapted.notes) is (adapted.request.choice != choice)


@given(apis)
def test_a_repair_requires_its_tool_as_strongly_as_the_api_can_express(api: ChatApi) -> None:
    adapted = require_call(make_request(tools=TOOLS), WEATHER, api)
    assert adapted.tools == (WEATHER,)
    can_demand = bool({"one", "required"} & api.honours)
    assert (adapted.choice.mode is ChoiceMode.REQUIRED) is can_demand


def test_a_name_that_was_not_offered_is_refused() -> None:
    with pytest.raises(DefinitionError):
        adapt_request(make_request(choice=ToolChoice.one("nothing")), API)


def test_without_tools_the_choice_is_auto() -> None:
    assert adapt_request(make_request(tools=(), choice=ToolChoice.none()), API).request.choice == ToolChoice.auto()


def test_fields_that_the_api_does_not_support_are_named() -> None:
    api = replace(API, unsupported_fields=("seed", "stop", "top_k"))
    adapted = adapt_request(replace(make_request(), seed=3, stop=("x",)), api)
    assert adapted.dropped_fields == ("seed", "stop")
    assert (adapted.request.seed, adapted.request.stop) == (None, ())


def test_one_call_only_is_noted_if_the_api_cannot_express_it() -> None:
    request = replace(make_request(), parallel_tool_calls=False)
    assert any("limited to one call" in note for note in adapt_request(request, ollama("m").api).notes)
    assert adapt_request(request, API).notes == ()
