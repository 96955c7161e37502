"""A plan comes back from JSON as it was."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.requests import requests
from ferrule.core.request import ToolCallRequest
from ferrule.errors import DefinitionError
from ferrule.server.answer.turn import ToolOwner
from ferrule.server.apis.responses.resume_record import Plan

NAMES = st.lists(st.text(max_size=5), max_size=3).map(tuple)


@given(
    request=requests(),
    whose=st.sampled_from(ToolOwner),
    names=st.none() | NAMES,
    labels=NAMES,
    asked=NAMES.map(frozenset),
    most=st.none() | st.integers(1, 9),
    instructions=st.none() | st.text(max_size=9),
    leave=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
    epoch=st.integers(1, 99),
)
def test_whatever_is_planned_comes_back_from_json_the_same(
    request: ToolCallRequest,
    whose: ToolOwner,
    names: tuple[str, ...] | None,
    labels: tuple[str, ...],
    asked: frozenset[str],
    most: int | None,
    instructions: str | None,
    leave: dict[str, str],
    epoch: int,
) -> None:
    plan = Plan(
        request=replace(request, messages=()),
        whose=whose,
        names=names,
        labels=labels,
        lists=labels[:1],
        asked=asked,
        max_tool_calls=most,
        instructions=instructions,
        leave=leave,
        input=({"type": "message", "id": "i"},),
        epoch=epoch,
    )
    assert Plan.from_json(json.loads(json.dumps(plan.as_json()))) == plan


@pytest.mark.parametrize("held", [{}, {"request": {}}, {"request": None, "whose": "gateway"}])
def test_what_another_version_wrote_is_refused_in_words(held: dict[str, object]) -> None:
    with pytest.raises(DefinitionError):
        Plan.from_json(held)
