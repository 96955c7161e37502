"""How the conformance suite's checks of the gateway as a server become a table."""

from __future__ import annotations

from lab.mcp_server_conformance import reason_left_out, row_of, server_verdict, table_of


def test_a_scenario_without_anything_to_test_is_neither_passed_nor_failed() -> None:
    idle = server_verdict("server-session-lifecycle", "2025-11-25", [{"id": "a", "name": "A", "status": "INFO"}], 0)
    assert row_of(idle)[2] == "nothing to test"
    # Without any check the suite did not get that far.
    assert row_of(server_verdict("ping", "2025-11-25", [], 1))[2] == "failed"


def test_a_failure_names_its_check_and_the_reason_if_it_is_known() -> None:
    checks = [
        {"id": "json-schema-2020-12-$schema", "name": "x", "status": "FAILURE", "errorMessage": "missing"},
        {"id": "other", "name": "y", "status": "SUCCESS"},
    ]
    verdict = server_verdict("json-schema-2020-12", "2026-07-28", checks, 1)
    assert row_of(verdict)[2:5] == ("failed", "1", "1")
    table = table_of([verdict], {"prompts-": 5})
    notes = "\n".join(table.notes)
    assert "json-schema-2020-12-$schema: missing" in notes
    assert "the keyword is left out" in notes
    assert "5 scenarios prompts-... were not run" in notes


def test_what_the_gateway_does_not_offer_is_left_out_with_a_reason() -> None:
    assert reason_left_out("prompts-get-simple")
    assert not reason_left_out("tools-call-image")
