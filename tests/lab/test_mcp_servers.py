"""How starts of servers are counted after a storm."""

from __future__ import annotations

from lab.mcp_servers import largest_burst


def test_a_burst_is_the_largest_number_in_any_second_wherever_it_begins() -> None:
    assert largest_burst([]) == 0
    assert largest_burst([0.9, 1.1, 1.2, 3.0]) == 3
    assert largest_burst([0.0, 1.0, 2.0]) == 1
