"""Clients from PyPI and npm, unmodified, with more tools than a prompt can hold, with loopback only."""

from __future__ import annotations

import pytest

from lab.many_tools_clients import rows_in_namespace

pytestmark = pytest.mark.live


def test_claude_code_does_its_task_with_ten_mcp_servers_at_a_fifth_of_the_prompt() -> None:
    every, searched, own = rows_in_namespace("--only", "claude-code")
    for row in (every, searched, own):
        assert (row["refused"], row["done"]) == ([], True), row
    # Its own tools are the larger part of what is left.
    assert every["offered"] > every["tools"]
    assert searched["offered"] < 20
    assert searched["sent"] < every["sent"] / 5
