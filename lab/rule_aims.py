"""Compare the measured cost of rules with its targets, and name the cause of a miss. Measures nothing itself."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ferrule.bench.tables import Table

# Seconds.
COLD: Final[Mapping[int, float]] = {10: 5e-3, 500: 100e-3}
WARM: Final = 20e-6
MASK: Final[Mapping[str, float]] = {"p50": 50e-6, "p99": 600e-6}

_ABOUT: Final = (
    "The worst of the rows below counts. If a target is missed, the cause comes from the figures of the same run and "
    "from a profile of a cold bind and emit for 100 tools."
)
# Functions to look for in a profile, and what each does.
SUSPECTS: Final[Mapping[str, str]] = {
    "matcher.py:schema_error": "having llguidance compile each tool's schema alone, to see whether it accepts it",
    "lark.py:_regex": "writing character nodes as regular expressions, again for each tool",
    "text_delimiters.py:delimit": "delimiting free text",
    "lark.py:_lower_all_but_json": "lowering values that are not JSON",
    "closed_objects.py:close_objects": "closing objects",
    "keyword_filter.py:document": "removing keywords that llguidance does not support",
}


def aims_table(answer: Mapping[str, Any]) -> Table:
    rows = [*_cold(answer), _warm(answer["compiles"]), *_masks(answer["masks"], answer["free_text"])]
    return Table("Targets", _ABOUT, ("target", "worst", "", "cause of a miss"), rows, text_columns=4)


def _cold(answer: Mapping[str, Any]) -> list[list[str]]:
    lines: list[list[str]] = []
    for size, aim in COLD.items():
        rows = [row for row in answer["compiles"] if row["tools"] == size]
        worst = max(rows, key=lambda row: row["cold"])
        cause = "" if worst["cold"] < aim else _cold_cause(worst, answer["shares"][worst["format"]])
        figure_text = f"{worst['cold'] * 1e3:.1f} ms ({worst['format']}, {worst['choice']})"
        lines.append([f"{size} tools cold under {aim * 1e3:.0f} ms", figure_text, _verdict(worst["cold"] < aim), cause])
    return lines


def _cold_cause(row: Mapping[str, Any], shares: Mapping[str, float]) -> str:
    suspect = max(shares, key=lambda key: shares[key])
    parts = {part: row[part] / row["cold"] for part in ("emit", "compile", "bind")}
    return (
        f"Writing the Lark grammar is {parts['emit']:.0%} of it and llguidance's compile {parts['compile']:.0%}; of "
        f"what was profiled, the largest part is {SUSPECTS[suspect]} ({shares[suspect]:.0%} of bind and emit)."
    )


def _warm(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    worst = max(row["hit"] for row in rows)
    key = max(rows, key=lambda row: row["key"])
    met = worst < WARM
    beside = f"Computing the key takes {key['key'] * 1e3:.1f} ms for {key['tools']} tools."
    return [f"warm under {WARM * 1e6:.0f} µs", f"{worst * 1e6:.2f} µs, key in hand", _verdict(met), beside]


def _masks(rows: Sequence[Mapping[str, Any]], free_text: Mapping[str, float]) -> list[list[str]]:
    lines: list[list[str]] = []
    for figure, aim in MASK.items():
        worst = max(rows, key=lambda row: row["first"][figure])
        missed = [row for row in rows if row["first"][figure] >= aim]
        figure_text = f"{worst['first'][figure] * 1e6:.0f} µs ({worst['format']})"
        cause = _mask_cause(missed, free_text) if missed else ""
        lines.append([f"bits of a mask, {figure} under {aim * 1e6:.0f} µs", figure_text, _verdict(not missed), cause])
    return lines


def _mask_cause(missed: Sequence[Mapping[str, Any]], free_text: Mapping[str, float]) -> str:
    slow, free, again = (sum(row[part] for row in missed) for part in ("slow", "slow_free", "slow_again"))
    plain, excluding = (f"{free_text[kind] * 1e6:.0f} µs" for kind in ("plain", "excluding"))
    return (
        f"Missed by {', '.join(row['format'] for row in missed)}: {free} of their {slow} slow masks are in free text "
        f"or a string, with nearly the whole vocabulary allowed, and {again} are slow again when the walk is repeated. "
        f"The first mask in a state of free text costs {plain}, and {excluding} if it may not contain a marker; later "
        "masks in the same state cost next to nothing."
    )


def _verdict(is_met: bool) -> str:
    return "met" if is_met else "missed"
