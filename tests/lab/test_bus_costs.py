from __future__ import annotations

import os

from lab.bus_costs import Run, cpu_seconds, rows_of


def test_the_ratio_is_between_neighbours_and_the_middle_one_counts() -> None:
    runs = [
        (Run(80, 1, 2, 3), Run(100, 1, 1, 1)),
        (Run(50, 1, 2, 3), Run(50, 1, 1, 1)),
        (Run(10, 9, 9, 9), Run(100, 5, 5, 5)),
    ]
    bare, ours = rows_of("source", 64, runs)
    assert bare[:4] == ("bare nats-py", "64", "100", "")
    assert ours[:4] == ("Ferrule, the bus only", "64", "50", "0.80 (met)")
    assert ours[4:] == ("1", "2", "3", "6")


def test_the_cpu_of_a_process_is_read() -> None:
    assert cpu_seconds(os.getpid()) >= 0
