"""CPU seconds and resident bytes of a process and its descendants, as the kernel counts them."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Cost:
    cpu: float
    resident: int

    def since(self, before: "Cost") -> "Cost":
        return Cost(self.cpu - before.cpu, self.resident - before.resident)


def cost_of(pid: int) -> Cost:
    """The cost of a process and its live descendants. The kernel adds the cost of ended children to their parent."""
    costs = [_own(one) for one in (pid, *_descendants(pid))]
    return Cost(sum(one.cpu for one in costs), sum(one.resident for one in costs))


def own_cpu(pid: int) -> float:
    """The CPU seconds of a process without its children, to the nanosecond. Threads that have ended are left out."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((one / "schedstat").read_text().split()[0]) for one in threads) / 1e9


def _own(pid: int) -> Cost:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
        resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (FileNotFoundError, ProcessLookupError):
        return Cost(0.0, 0)
    return Cost(sum(int(fields[at]) for at in (11, 12, 13, 14)) / _TICKS, resident)


def _descendants(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        own = [int(one) for task in tasks for one in (task / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [*own, *(below for one in own for below in _descendants(one))]
