"""`ferrule stats`: tool usage as tables and as JSON."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.command_line import run
from ferrule.cli.stats import WIDTH, bar, use_rows, version_rows
from ferrule.core.context import Principal
from ferrule.core.tool import ToolDefinition
from ferrule.run.ledger.address import open_ledger
from ferrule.run.reply_record import ReplyRecord
from ferrule.run.tool_usage import SHORT_HASH, AttemptStatus, CallAttempt, ToolUsage, UsageCounts, UsageRow

LOOK = ToolDefinition("look", "Looks.")
BETTER = replace(LOOK, description="Looks at a place by its name.")
PAY = ToolDefinition("pay", "Pays.")
APRIL, MAY, JUNE = 1_775_001_600.0, 1_777_593_600.0, 1_780_272_000.0
TOLD: list[tuple[float, str, ToolUsage]] = [
    (APRIL, "acme", ToolUsage((LOOK, PAY), (CallAttempt("look", AttemptStatus.REFUSED, "look"),))),
    (
        APRIL,
        "acme",
        ToolUsage((LOOK, PAY), (CallAttempt("look", AttemptStatus.ACCEPTED, "look", 0, is_repeated=True),)),
    ),
    (JUNE, "acme", ToolUsage((BETTER, PAY), (CallAttempt("look", AttemptStatus.ACCEPTED, "look", 0),))),
    (JUNE, "acme", ToolUsage((BETTER, PAY), (CallAttempt("pay", AttemptStatus.NOT_OFFERED, "pai\x1b[2J"),))),
    (JUNE, "evil", ToolUsage((PAY,), is_required=True)),
]


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    path = str(tmp_path / "ledger.db")

    async def story() -> None:
        async with await open_ledger(path) as opened_ledger:
            for number, (at, tenant, selection) in enumerate(TOLD):
                record = await opened_ledger.open(f"c{number}", Principal("ann", tenant), "one", 10, now=at)
                await opened_ledger.record_reply(ReplyRecord(record.id, "0.1", "smol", selection), record.epoch, now=at)

    asyncio.run(story())
    return path


def test_tools_are_listed_by_use_and_each_version_of_a_description_for_itself(ledger: str) -> None:
    output = run("stats", "--ledger", ledger).out
    assert output.index("look") < output.index("pay")
    assert LOOK.fingerprint[:SHORT_HASH] in output
    assert BETTER.fingerprint[:SHORT_HASH] in output
    assert "50%" in output, "one of two calls under the first wording did not fit"
    assert " 0%" in output, "and none under the second"
    assert "2026-04-01" in output
    assert "█" in output
    assert "\x1b[2J" not in output


def test_of_one_tool_the_wording_of_each_version_is_printed(ledger: str) -> None:
    output = run("stats", "--ledger", ledger, "--tool", "look").out
    assert output.index("Looks.") < output.index("Looks at a place by its name.")
    assert "pay" not in output


def test_as_json_it_is_for_programs_and_keeps_to_what_was_asked_for(ledger: str) -> None:
    document = run("stats", "--ledger", ledger, "--json").json
    assert {(one["tool"], one["description"]): (one["offered"], one["picked"]) for one in document["lines"]} == {
        ("look", "Looks."): (2, 1),
        ("look", "Looks at a place by its name."): (2, 1),
        ("pay", "Pays."): (5, 0),
    }
    assert document["misnamed"] == [{"model": "smol", "wrote": "pai\x1b[2J", "tool": "pay", "count": 1}]
    (pay,) = run("stats", "--ledger", ledger, "--tool", "pay", "--json").json["lines"]
    assert (pay["missed"], pay["demanded"], pay["wrong_share"]) == (2, 1, None)
    evil = run("stats", "--ledger", ledger, "--tenant", "evil", "--json").json["lines"]
    assert [(one["tool"], one["offered"]) for one in evil] == [("pay", 1)]


@pytest.mark.parametrize("since", ["2026-05-01", "2026-05-01T00:00", "2026-05-01T02:00+02:00"])
def test_a_moment_leaves_out_what_was_before(ledger: str, since: str) -> None:
    document = run("stats", "--ledger", ledger, "--since", since, "--json").json["lines"]
    assert {one["description"] for one in document} == {"Looks at a place by its name.", "Pays."}


def test_what_is_no_moment_is_wrong_usage_and_an_empty_ledger_says_so(ledger: str) -> None:
    assert run("stats", "--ledger", ledger, "--since", "yesterday").code == 2
    assert run("stats", "--ledger", ledger, "--tenant", "nobody").out == "no tools have been offered to a model\n"


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_bar_has_its_width_and_shows_whatever_is_not_nothing(one: int, other: int) -> None:
    count, most = min(one, other), max(one, other)
    drawn = bar(count, most)
    assert len(drawn) == WIDTH
    assert (drawn.strip() != "") == (count > 0)
    assert bar(most, most) == ("█" * WIDTH if most else " " * WIDTH)


counts = st.builds(UsageCounts, offered=st.integers(0, 9), picked=st.integers(0, 9), refused=st.integers(0, 9))
found = st.lists(
    st.builds(
        UsageRow,
        st.sampled_from(["m", "n"]),
        st.sampled_from(["look", "pay", ""]),
        st.sampled_from(["f1", "f2"]),
        st.just(""),
        st.floats(0, 10),
        st.floats(10, 20),
        counts,
    ),
    max_size=8,
)


@given(found)
def test_no_figure_is_lost_between_the_lines_and_the_tables(lines: list[UsageRow]) -> None:
    used = use_rows(lines)
    assert sum(int(row[2].split()[-1]) for row in used) == sum(line.counts.picked for line in lines)
    assert len(used) == len({(line.model, line.tool) for line in lines})
    versions = version_rows(lines)
    assert sum(int(row[4]) for row in versions) == sum(line.counts.offered for line in lines if line.tool)
