"""The verdicts of the conformance suite are reported unchanged."""

from __future__ import annotations

from typing import Any

from ferrule.core.tool import ToolDefinition
from lab.mcp_conformance import reason_left_out, scenarios, table_of, verdict_of
from lab.mcp_conformance_client import calls_for

LISTING = """Client scenarios (test against a client):
  - initialize [2025-06-18,2025-11-25]
  - auth/dpop [extension]
"""


def check(status: str, **more: Any) -> dict[str, Any]:
    return {"name": "Check", "status": status, **more}


def test_scenarios_are_read_with_their_revisions() -> None:
    assert scenarios(LISTING) == [("initialize", ("2025-06-18", "2025-11-25")), ("auth/dpop", ("extension",))]


def test_what_is_left_out_has_a_reason() -> None:
    assert reason_left_out("auth/dpop")
    assert not reason_left_out("initialize")


def test_a_scenario_passes_only_if_something_passed_nothing_failed_and_the_suite_agrees() -> None:
    passed = verdict_of("s", "r", [check("SUCCESS"), check("SKIPPED")], 0)
    assert passed.row == ("s", "r", "passed", "1", "0", "0", "1")
    failed = verdict_of("s", "r", [check("SUCCESS"), check("FAILURE", errorMessage="no header")], 1)
    assert failed.failures == ("Check: no header",)
    assert verdict_of("s", "r", [check("SKIPPED")], 0).failures == ("no check passed",)
    assert verdict_of("s", "r", [], 0).failures
    assert verdict_of("s", "r", [check("SUCCESS")], 1).failures == ("the suite ended with 1",)
    table = table_of([passed, failed], {"auth/dpop": 2})
    assert table.title == "1 of 3 client scenarios tried: 1 of 2 runs passed"
    assert table.notes[0] == "s, r: Check: no header"
    assert table.notes[1].startswith("2 scenarios auth/dpop... were not run.")


def test_expected_calls_come_first_and_otherwise_every_tool_is_called_once() -> None:
    first = ToolDefinition("suite_a", parameters={"type": "object", "properties": {"n": {"type": "integer"}}})
    echo = ToolDefinition("suite_b", parameters={"type": "object", "properties": {"schema": {"type": "object"}}})
    assert calls_for((first, echo), {}) == [("suite_a", {"n": 1}), ("suite_b", {"schema": first.parameters})]
    context = {"toolCalls": [{"name": "a", "arguments": {"n": None}}]}
    assert calls_for((first, echo), context) == [("suite_a", {"n": None})]
