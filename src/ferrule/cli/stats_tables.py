"""The tables of `ferrule stats`, as rows of text. Knows no ledger and no terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from ferrule.run.tool_usage import SHORT_HASH
from ferrule.run.usage_figures import Misnamed, SelectionLine, Tally

Rows = list[tuple[str, ...]]
WIDTH = 8
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_NO_TOOL = "(no tool near)"
# In one column: most of them are nothing for most tools, and a terminal is narrow.
_BESIDES = ("wrong", "cut_off", "failed", "denied", "retried", "repeated", "missed")
USE = ("model", "tool", "picked", "offered", "besides")
VERSIONS = ("tool", "definition", "first seen", "last seen", "offered", "picked", "wrong")
MISNAMED = ("written, not offered", "nearest tool", "model", "times")
LEGEND = (
    "picked: calls that were handed on. offered: replies that could have called it.",
    "wrong: the arguments did not fit, and were repaired or the call refused.",
    "cut off: the answer's budget ended in it. failed: its result was an error.",
    "denied: a person said no. retried: after an error of its own.",
    "repeated: the same call as before. missed: a name near it was called that was",
    "not on offer, or it had to be called and nothing was.",
)


def use_rows(lines: Iterable[SelectionLine]) -> Rows:
    """One for each model and tool, over all definitions of it, the most used first."""
    sums: dict[tuple[str, str], Tally] = {}
    for line in lines:
        key = (line.model, line.tool)
        sums[key] = sums.get(key, Tally()) + line.tally
    most = max((tally.picked for tally in sums.values()), default=0)
    ordered = sorted(sums.items(), key=lambda one: (-one[1].picked, -one[1].offered, one[0]))
    return [
        (model, tool or _NO_TOOL, f"{bar(tally.picked, most)} {tally.picked}", str(tally.offered), _besides(tally))
        for (model, tool), tally in ordered
    ]


def version_rows(lines: Iterable[SelectionLine]) -> Rows:
    """One for each definition of each tool, over all models, the oldest of a tool first."""
    found: dict[str, dict[str, list[SelectionLine]]] = {}
    for line in lines:
        if line.tool:
            found.setdefault(line.tool, {}).setdefault(line.fingerprint, []).append(line)
    return [
        _version(tool, fingerprint, same)
        for tool, versions in found.items()
        for fingerprint, same in sorted(versions.items(), key=lambda one: _first(one[1]))
    ]


def misnamed_rows(found: Iterable[Misnamed]) -> Rows:
    return [(one.wrote, one.tool or _NO_TOOL, one.model, str(one.count)) for one in found]


def wordings(lines: Iterable[SelectionLine]) -> list[tuple[str, str]]:
    """The description in each definition of a tool, the oldest first."""
    ordered = sorted((line for line in lines if line.tool), key=lambda line: line.first_at or 0.0)
    return list({line.fingerprint[:SHORT_HASH]: line.description or "(none)" for line in ordered}.items())


def bar(count: int, most: int) -> str:
    """As long as the share of the most; what is not nothing is seen."""
    eighths = max(round(count / most * WIDTH * 8), 1) if count and most else 0
    full, rest = divmod(eighths, 8)
    drawn = "█" * full + (_EIGHTHS[rest] if rest else "")
    return drawn.ljust(WIDTH)


def _besides(tally: Tally) -> str:
    return ", ".join(f"{getattr(tally, name)} {name.replace('_', ' ')}" for name in _BESIDES if getattr(tally, name))


def _version(tool: str, fingerprint: str, same: Sequence[SelectionLine]) -> tuple[str, ...]:
    tally = sum((line.tally for line in same), Tally())
    share = tally.wrong_share
    told = (str(tally.offered), str(tally.picked), "" if share is None else f"{bar(round(share * 64), 64)} {share:.0%}")
    return tool, fingerprint[:SHORT_HASH], _day(_first(same)), _day(max(line.last_at or 0.0 for line in same)), *told


def _first(same: Iterable[SelectionLine]) -> float:
    return min(line.first_at or 0.0 for line in same)


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")
