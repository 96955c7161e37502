"""What an API cannot say is said in another way, or refused: the demand never becomes weaker in silence."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.tools import PING, TAGS, WEATHER, asked
from ferrule import ChoiceMode, DefinitionError, ToolChoice
from ferrule.engines.chat.api import ALL_CHOICES, ChatApi
from ferrule.engines.chat.choice import demanding, said, word_of
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
def test_what_is_sent_allows_no_more_than_the_request_and_demands_no_less(choice: ToolChoice, api: ChatApi) -> None:
    request = asked(tools=TOOLS, choice=choice)
    try:
        sent = said(request, api).request
    except UnsupportedError:
        assert choice.mode is ChoiceMode.REQUIRED
        assert "required" not in api.honours
        return
    assert word_of(sent.choice) in api.honours | {"auto"}
    assert sent.choice.offered(sent.tools) == choice.offered(TOOLS)
    if choice.mode is ChoiceMode.REQUIRED:
        assert sent.choice.mode is ChoiceMode.REQUIRED


@given(choices, apis)
def test_a_note_tells_of_every_choice_that_was_said_in_another_way(choice: ToolChoice, api: ChatApi) -> None:
    try:
        sent = said(asked(tools=TOOLS, choice=choice), api)
    except UnsupportedError:
        return
    assert bool(sent.notes) is (sent.request.choice != choice)


@given(apis)
def test_a_repair_demands_its_tool_as_strongly_as_the_api_can_say(api: ChatApi) -> None:
    sent = demanding(asked(tools=TOOLS), WEATHER, api)
    assert sent.tools == (WEATHER,)
    can_demand = bool({"one", "required"} & api.honours)
    assert (sent.choice.mode is ChoiceMode.REQUIRED) is can_demand


def test_a_name_that_was_not_offered_is_refused() -> None:
    with pytest.raises(DefinitionError):
        said(asked(choice=ToolChoice.one("nothing")), API)


def test_without_tools_nothing_is_forbidden_because_providers_refuse_that() -> None:
    assert said(asked(tools=(), choice=ToolChoice.none()), API).request.choice == ToolChoice.auto()


def test_fields_that_the_api_has_no_place_for_are_named() -> None:
    api = replace(API, lacks=("seed", "stop", "top_k"))
    sent = said(replace(asked(), seed=3, stop=("x",)), api)
    assert sent.unsaid == ("seed", "stop")
    assert (sent.request.seed, sent.request.stop) == (None, ())


def test_one_call_only_is_noted_where_the_api_cannot_be_told() -> None:
    request = replace(asked(), parallel_tool_calls=False)
    assert any("one call only" in note for note in said(request, ollama("m").api).notes)
    assert said(request, API).notes == ()
