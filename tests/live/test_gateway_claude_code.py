"""Claude Code from npm, unmodified, against `ferrule serve` on a real model, with loopback only and an empty HOME.

One turn; `scripts/long gateway-clients` makes twenty.
"""

from __future__ import annotations

import pytest

from lab.claude_code import run_results

pytestmark = pytest.mark.live


def test_a_turn_with_its_own_tool_is_called_with_arguments_that_fit_and_goes_on_with_the_result() -> None:
    (run,) = run_results(1)
    assert run["faults"] == []
    assert run["calls"] >= 1
    assert run["turns"] >= 2
    assert run["streams"] == run["turns"]
    assert run["interfaces"] == ["lo"]


def test_a_prompt_that_does_not_fit_the_model_is_refused_in_words_that_it_shows() -> None:
    (run,) = run_results(1, ["--max-turns", "1"])
    assert {*run["statuses"]} == {400}
    assert "Prompt is too long" in run["said"]
    assert "limit 4096" in run["said"]
