"""A resume record survives the round trip through JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.requests import requests
from ferrule.core.request import ToolCallRequest
from ferrule.core.text_grammar import TextGrammar
from ferrule.core.tool import ToolDefinition
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
    described_tools=NAMES.map(frozenset),
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
    described_tools: frozenset[str],
) -> None:
    plan = ResumeRecord(
        request=replace(request, messages=(), described_tools=described_tools),
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


@pytest.mark.parametrize("grammar", [None, TextGrammar("regex", "a+")])
def test_a_custom_tool_comes_back_with_its_grammar(grammar: TextGrammar | None) -> None:
    request = ToolCallRequest(messages=(), tools=(ToolDefinition.custom("patch", "", grammar),))
    plan = ResumeRecord(request=request, tool_owner=ToolOwner.CALLER)
    assert ResumeRecord.from_json(json.loads(json.dumps(plan.as_json()))) == plan


def test_a_tool_of_a_record_of_an_earlier_version_is_a_function() -> None:
    tool = ToolDefinition("ping")
    plan = ResumeRecord(request=ToolCallRequest(messages=(), tools=(tool,)), tool_owner=ToolOwner.CALLER)
    data = plan.as_json()
    del data["request"]["tools"][0]["is_custom"], data["request"]["tools"][0]["input_grammar"]
    assert ResumeRecord.from_json(data).request.tools == (tool,)


@pytest.mark.parametrize("data", [{}, {"request": {}}, {"request": None, "whose": "gateway"}])
def test_a_record_of_another_version_is_refused_with_a_message(data: dict[str, object]) -> None:
    with pytest.raises(DefinitionError):
        ResumeRecord.from_json(data)
