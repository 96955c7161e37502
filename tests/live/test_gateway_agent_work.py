"""Claude Code from npm, unmodified and with its default tools, does a task through `ferrule serve`, with loopback only.

The model is scripted and held by the real grammar. `scripts/long agents` runs this with every agent.
"""

from __future__ import annotations

import pytest

from lab.agents.__main__ import runs_in_namespace

pytestmark = pytest.mark.live


def test_claude_code_edits_a_file_and_runs_a_command_with_its_default_tools() -> None:
    (run,) = runs_in_namespace("Claude Code", 1)
    assert (run.refused, run.errors, run.invalid) == ([], [], [])
    assert run.calls == ["Read", "Edit", "Bash"]
    assert run.tools > 10
    assert run.is_done, run.printed
