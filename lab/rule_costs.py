"""Measure what a rule costs: to build from tools, to find in the cache, and per token. `scripts/bench-rules`.

The raw figures go to .cache/results/, the tables to the terminal and to docs/reference/results.md.
"""

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from ferrule.bench.tables import Table, markdown, print_table
from lab import rule_compiles, rule_masks
from lab.environment import measured_environment
from lab.paths import CACHE
from lab.results_page import section, write_section
from lab.rule_aims import aims_table

_SECTION: Final = "rule-costs"
_HEADING: Final = "What a rule costs"
_WIDTH_OF_A_LOG: Final = 170
_COMMAND: Final = "```sh\nscripts/setup-oracles\nscripts/bench-rules\n```"
_ABOUT: Final = (
    "One run on one machine, which may have run other processes at the time; see the load average. Compilation is "
    "therefore given in CPU time, the best of three rounds. Masks take microseconds and are given in wall time, so "
    "their p99 and maximum include the effect of other processes."
)
_COMPILE_ABOUT: Final = (
    "CPU milliseconds for tools of 3 to 8 parameters with nested objects, enums and arrays, no two the same. *bind*, "
    "*Lark* and *compile* are the parts of *cold*: the rule, its grammar for llguidance, and llguidance's own work on "
    f"that grammar, for the first {rule_compiles.VOCABULARY:,} tokens of the Llama 3 vocabulary. Caches have nothing "
    "built from tools. *warm* is a hit in the rule cache with a known key, in microseconds; *key* is the time to "
    "compute that key. *GBNF* and *tag* are the other two targets, from an existing rule and with cold caches. "
    "*xgrammar reads* and *xgrammar compiles* are that library's own work on our structural tag, one thread, no cache, "
    "the same tokens; it computes masks ahead of time, which llguidance computes while decoding."
)
_COMPILE_COLUMNS: Final = (
    *("format", "choice", "tools", "bind", "Lark", "compile", "cold", "key", "warm (µs)", "GBNF", "tag"),
    *("xgrammar reads", "xgrammar compiles"),
)
_DASH: Final = "A dash: xgrammar is measured for auto only, and does not compile if the previous size took over 5 s."
_MASK_ABOUT: Final = (
    "Microseconds in which llguidance computes the bits of one mask, without applying them to logits "
    f"(scripts/bench-targets measures both), over the whole Llama 3 vocabulary, {rule_masks.TOOLS} tools, a call "
    "required. A walk "
    "chooses randomly among the allowed tokens. *again*: the same walks a second time. *free*: masks that allow more "
    "than nine tenths of the vocabulary, as in reasoning, raw values and strings; *p50 free* is the median of those "
    "alone. A model's reply may contain a larger share of them than these walks; then this figure says more than p50. "
    "*slow*: masks over 600 µs; *slow free*: slow masks that are free; *slow again*: slow masks that were slow the "
    "second time too."
)
_MASK_COLUMNS: Final = (
    *("format", "walks", "masks", "p50", "p99", "longest", "p50 again", "p99 again", "longest again"),
    *("free", "p50 free", "slow", "slow free", "slow again"),
)


def main(arguments: Sequence[str] | None = None) -> None:
    reader = argparse.ArgumentParser(prog="scripts/bench-rules", description=(__doc__ or "").partition("\n")[0])
    reader.add_argument("--model", type=Path, help="vocabulary file, one base64 token per line (default: Llama 3's)")
    model: Path = reader.parse_args(arguments).model or rule_masks.llama3_model()
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH_OF_A_LOG)

    def advance(step: str) -> None:
        console.print(f"rules: {step}", markup=False, highlight=False)

    before = os.getloadavg()[0]
    masks = rule_masks.measure(model, advance)
    with rule_compiles.xgrammar_compiles() as xgrammar:
        compiles = rule_compiles.measure(xgrammar, model, advance)
    answer = {
        "circumstances": {
            **measured_environment(),
            "llguidance": version("llguidance"),
            "xgrammar": _xgrammar_version(),
        },
        "load": [before, os.getloadavg()[0]],
        "compiles": compiles,
        "masks": masks,
        "free_text": rule_masks.free_text_seconds(model),
        "shares": {name: rule_compiles.shares(name, 100) for name in rule_compiles.FORMATS},
    }
    results = CACHE / "results"
    results.mkdir(parents=True, exist_ok=True)
    (results / "rules.json").write_text(json.dumps(answer, indent=1), encoding="utf-8")
    for table in tables(answer):
        print_table(table, console)
    write_section(_SECTION, page_section(answer))


def page_section(answer: Mapping[str, Any]) -> str:
    environment, (before, after) = answer["circumstances"], answer["load"]
    environment_text = (
        f"Measured {environment['date']}; {environment['machine']}; load average {before:.1f} at the start and "
        f"{after:.1f} at the end; Python {environment['Python']}; Ferrule {environment['Ferrule']}; "
        f"llguidance {environment['llguidance']}; xgrammar {environment['xgrammar']}."
    )
    return section(_SECTION, _HEADING, [_COMMAND, _ABOUT, environment_text, *map(markdown, tables(answer))])


def tables(answer: Mapping[str, Any]) -> list[Table]:
    compiled = [_compile_row(row) for row in answer["compiles"]]
    walked = [_mask_row(row) for row in answer["masks"]]
    return [
        aims_table(answer),
        Table(
            "Building a rule",
            _COMPILE_ABOUT,
            _COMPILE_COLUMNS,
            compiled,
            _skipped_notes(answer["compiles"]),
            text_columns=2,
        ),
        Table("The bits of a mask per token", _MASK_ABOUT, _MASK_COLUMNS, walked),
    ]


def _compile_row(row: Mapping[str, Any]) -> list[str]:
    parts = [_milliseconds(row[part]) for part in ("bind", "emit", "compile", "cold", "key")]
    theirs: Mapping[str, Any] = row.get("xgrammar") or {}
    others = [_milliseconds(theirs.get(part)) for part in ("read", "compile")]
    named = [row["format"], row["choice"], str(row["tools"])]
    return [*named, *parts, f"{row['hit'] * 1e6:.2f}", *(_milliseconds(row[part]) for part in ("gbnf", "tag")), *others]


def _skipped_notes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    answered_rows = [row for row in rows if "xgrammar" in row]
    notes = [_DASH]
    for row in answered_rows:
        if row["xgrammar"]["problem"]:
            notes.append(f"xgrammar, {row['format']}, {row['tools']} tools: {row['xgrammar']['problem']:.120}")
    return notes


def _mask_row(row: Mapping[str, Any]) -> list[str]:
    times = [f"{row[when][figure] * 1e6:.0f}" for when in ("first", "again") for figure in ("p50", "p99", "max")]
    middle = "-" if row["free_p50"] is None else f"{row['free_p50'] * 1e6:.0f}"
    counts = [str(row[part]) for part in ("slow", "slow_free", "slow_again")]
    return [row["format"], str(row["walks"]), str(row["masks"]), *times, str(row["free"]), middle, *counts]


def _milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1e3:.2f}" if seconds < 0.01 else f"{seconds * 1e3:,.0f}"


def _xgrammar_version() -> str:
    (path,) = (CACHE / "venvs" / "xgrammar" / "lib").glob("*/site-packages/xgrammar-*.dist-info")
    return path.name.removeprefix("xgrammar-").removesuffix(".dist-info")


if __name__ == "__main__":
    main()
