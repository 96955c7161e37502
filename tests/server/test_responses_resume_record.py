"""A resume record survives the round trip through JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.requests import requests
from ferrule.core.request import ToolCallRequest
from ferrule.errors import DefinitionError
from ferrule.server.answer.plan import ToolOwner
from ferrule.server.answer.resume_record import ResumeRecord

NAMES = st.lists(st.text(max_size=5), max_size=3).map(tuple)


@given(
    request=requests(),
    whose=st.sampled_from(ToolOwner),
    names=st.none() | NAMES,
    labels=NAMES,
    approval_required=NAMES.map(frozenset),
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
    approval_required: frozenset[str],
    most: int | None,
    instructions: str | None,
    leave: dict[str, str],
    epoch: int,
) -> None:
    plan = ResumeRecord(
        request=replace(request, messages=()),
        tool_owner=whose,
        tool_names=names,
        labels=labels,
        labels_to_list=labels[:1],
        approval_required=approval_required,
        max_tool_calls=most,
        instructions=instructions,
        approvals=leave,
        input=({"type": "message", "id": "i"},),
        epoch=epoch,
    )
    assert ResumeRecord.from_json(json.loads(json.dumps(plan.as_json()))) == plan


@pytest.mark.parametrize("data", [{}, {"request": {}}, {"request": None, "whose": "gateway"}])
def test_a_record_of_another_version_is_refused_with_a_message(data: dict[str, object]) -> None:
    with pytest.raises(DefinitionError):
        ResumeRecord.from_json(data)
