from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.rules.relaxation import relax
from ferrule.schema.admission import admit
from lab import rule_compiles, rule_masks
from lab.rule_aims import SUSPECTS, aims_table
from lab.rule_costs import page_section, tables
from lab.rule_tools import sample_tools

CALM = {"p50": 10e-6, "p99": 300e-6, "max": 900e-6}


def answer(cold: float = 1e-3, p99: float = 300e-6) -> dict[str, Any]:
    parts = {"bind": 0.1 * cold, "emit": 0.7 * cold, "compile": 0.2 * cold, "cold": cold, "gbnf": cold, "tag": cold}
    compiles = [
        {"format": name, "choice": "auto", "tools": size, **parts, "key": 1e-3, "hit": 1e-7}
        for name in rule_compiles.FORMATS
        for size in rule_compiles.SIZES
    ]
    compiles[0]["xgrammar"] = {"read": 1e-3, "compile": None, "problem": None}
    mask = {"walks": 9, "masks": 2500, "first": {**CALM, "p99": p99}, "again": CALM}
    counted = {"free": 400, "free_p50": None, "slow": 30, "slow_free": 20, "slow_again": 10}
    shares = {suspect: 0.5 if suspect == "closed_objects.py:close_objects" else 0.1 for suspect in SUSPECTS}
    made_under = {"date": "2026-01-01", "machine": "2 cores", "Python": "3.11", "Ferrule": "0.1.0"}
    return {
        "circumstances": {**made_under, "llguidance": "1.9", "xgrammar": "0.2"},
        "load": [0.5, 1.5],
        "compiles": compiles,
        "masks": [{"format": name, **mask, **counted} for name in rule_masks.FORMATS],
        "free_text": {"plain": 60e-6, "excluding": 1500e-6},
        "shares": dict.fromkeys(rule_compiles.FORMATS, shares),
    }


@given(fewer=st.integers(0, 30), more=st.integers(0, 30))
def test_the_tools_are_always_the_same_and_more_of_them_begin_with_fewer(fewer: int, more: int):
    assert sample_tools(fewer + more)[:fewer] == sample_tools(fewer)


def test_every_tool_is_admitted_and_is_like_no_other():
    tools = sample_tools(max(rule_compiles.SIZES))
    assert all(admit(tool.parameters) == tool.parameters for tool in tools)
    assert len({tool.name for tool in tools}) == len({str(tool.parameters) for tool in tools}) == len(tools)


def test_the_tools_are_of_every_size_and_kind():
    tools = sample_tools(100)
    assert {len(tool.properties) for tool in tools} == set(range(3, 9))
    text = str([tool.parameters for tool in tools])
    assert all(f"'{word}'" in text for word in ("enum", "array", "object", "integer", "number", "boolean"))
    assert any(
        "properties" in inner
        for tool in tools
        for outer in tool.properties.values()
        for inner in outer.get("properties", {}).values()
    )


def test_forgetting_the_tools_makes_widening_work_again():
    (tool,) = sample_tools(1)
    first = relax(tool.parameters)
    assert relax(tool.parameters) is first
    assert rule_compiles.clear_tool_caches() > 0
    assert relax(tool.parameters) is not first


@given(st.lists(st.floats(0, 1), min_size=1, max_size=300))
def test_the_figures_are_seconds_that_were_measured_and_in_order(seconds: list[float]):
    figures = rule_masks.figures(seconds)
    assert set(figures.values()) <= set(seconds)
    assert figures["p50"] <= figures["p99"] <= figures["max"] == max(seconds)


def test_the_99th_of_a_hundred_is_the_last_but_one():
    assert rule_masks.figures([float(number) for number in range(1, 101)]) == {"p50": 50.0, "p99": 99.0, "max": 100.0}


def test_aims_that_are_met_name_no_cause():
    rows = aims_table(answer()).rows
    assert [row[2] for row in rows] == ["met"] * 5
    assert [bool(row[3]) for row in rows] == [False, False, True, False, False]


@pytest.mark.parametrize("cold, verdicts", [(20e-3, ["missed", "met"]), (200e-3, ["missed", "missed"])])
def test_a_cold_compile_that_is_too_slow_is_missed_and_names_the_largest_suspect(cold: float, verdicts: list[str]):
    rows = aims_table(answer(cold=cold)).rows[:2]
    assert [row[2] for row in rows] == verdicts
    assert SUSPECTS["closed_objects.py:close_objects"] in rows[0][3]


def test_one_slow_mask_figure_is_missed_with_its_counts():
    row = aims_table(answer(p99=700e-6)).rows[4]
    assert row[2] == "missed"
    assert f"{20 * len(rule_masks.FORMATS)} of their {30 * len(rule_masks.FORMATS)}" in row[3]


def test_every_row_has_a_cell_for_each_column_and_the_page_tells_the_load():
    assert all(len(row) == len(table.columns) for table in tables(answer()) for row in table.rows)
    assert "load average 0.5 at the start and 1.5 at the end" in page_section(answer())
