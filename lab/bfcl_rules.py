"""A rule for every tool of BFCL v4, written for every target: `scripts/long bfcl-rules`.

Each distinct function document is admitted, bound alone in two formats with a call required, and written for each
target. What Ferrule refuses is counted with its reason; whatever else goes wrong ends the run, since it is a fault.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from rich.console import Console
from rich.progress import track

from ferrule.bench.bfcl_tools import RULES, FunctionDocument, distinct, function_documents
from ferrule.bench.tables import Table, markdown, show
from ferrule.core.choice import ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.errors import FerruleError
from ferrule.rules.gbnf import emit_gbnf
from ferrule.rules.json_schema import emit_json_schema
from ferrule.rules.lark import emit_lark
from ferrule.rules.matcher import grammar_error
from ferrule.rules.relaxation import widened
from ferrule.rules.rule import Rule
from ferrule.rules.structural_tag import emit_structural_tag
from ferrule.schema.admission import admit
from ferrule.wire.registry import formats
from ferrule.wire.rule_builder import bind
from lab.paths import CACHE
from lab.results_page import publish
from lab.versions import counted_with

FORMATS: Final = ("hermes", "qwen_xml")
_WHEEL: Final = CACHE / "wheels" / "bfcl_eval"
_DATA: Final = Path("bfcl_eval") / "data"
_SECTION: Final = "bfcl-rules"
_HEADING: Final = "BFCL's tools on every target"
_COMMAND: Final = """```sh
scripts/setup-oracles --bfcl
scripts/long bfcl-rules
```"""
_MOST_NOTES: Final = 20


class DataMissing(FerruleError):
    """BFCL's data was not fetched."""

    code = "bench_data_missing"


class Uncompiled(FerruleError):
    """A target's own compiler refuses what was written for it."""

    code = "bench_uncompiled"


def _lark(rule: Rule) -> None:
    reason = grammar_error(emit_lark(rule))
    if reason:
        raise Uncompiled(reason)


# A target is a way to write a rule that raises what refuses it. Lark alone has its compiler at hand.
TARGETS: Final[dict[str, Callable[[Rule], object]]] = {
    "Lark": _lark,
    "GBNF": emit_gbnf,
    "structural tag": emit_structural_tag,
}
COMPILED: Final = frozenset({"Lark"})
JSON_SCHEMA: Final = "JSON Schema"
NO_FORMAT: Final = "-"


@dataclass(slots=True)
class Counts:
    """What came of all tools. The pairs are (format, target)."""

    shown: int
    distinct: int = 0
    admitted: int = 0
    taken: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    refused: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    reasons: Counter[str] = field(default_factory=Counter[str])
    rules: Counter[str] = field(default_factory=Counter[str])
    tools_by_rule: Counter[str] = field(default_factory=Counter[str])
    widened: int = 0
    losses: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """By keyword and why, how many tools lose it at least once."""
    lost_at: list[str] = field(default_factory=list[str])


def count(documents: Iterable[FunctionDocument], counts: Counts) -> Counts:
    for document in documents:
        counts.distinct += 1
        counts.rules.update(document.rules)
        counts.tools_by_rule.update(set(document.rules))
        try:
            parameters = cast("dict[str, Any]", admit(document.parameters))
            tool = ToolDefinition(document.name, document.description, parameters)
        except FerruleError as error:
            counts.reasons[f"not admitted, {document.name}: {error.message}"] += 1
            continue
        counts.admitted += 1
        _count_tool(tool, counts)
    return counts


def _count_tool(tool: ToolDefinition, counts: Counts) -> None:
    losses = widened(tool.parameters).losses
    counts.losses.update({(loss.keyword, loss.how) for loss in losses})
    counts.lost_at.extend(f"{tool.name}: {loss.path}" for loss in losses)
    counts.widened += bool(losses)
    required = ToolChoice.required()
    for name in FORMATS:
        form = formats()[name]
        for target, write in TARGETS.items():
            _try(counts, (name, target), tool, lambda write=write, form=form: write(bind(form, [tool], required)))
    _try(counts, (NO_FORMAT, JSON_SCHEMA), tool, lambda: emit_json_schema([tool], required))


def _try(counts: Counts, place: tuple[str, str], tool: ToolDefinition, write: Callable[[], object]) -> None:
    try:
        write()
    except FerruleError as error:
        counts.refused[place] += 1
        counts.reasons[f"{' '.join(place)}, {tool.name}: {error.message}"] += 1
    else:
        counts.taken[place] += 1


def tables(counts: Counts) -> list[Table]:
    places = [*((name, target) for name in FORMATS for target in TARGETS), (NO_FORMAT, JSON_SCHEMA)]
    asked = [
        (
            *place,
            "compiled" if place[1] in COMPILED else "written",
            *map(str, (counts.taken[place], counts.refused[place])),
        )
        for place in places
    ]
    rules = [
        (name or "(empty)", RULES[name], str(counts.tools_by_rule[name]), str(times))
        for name, times in counts.rules.most_common()
    ]
    losses = [(keyword, how, str(tools)) for (keyword, how), tools in counts.losses.most_common()]
    return [
        Table(
            "Targets",
            f"BFCL shows {counts.shown} function documents, of which {counts.distinct} differ; {counts.admitted} of "
            "these were admitted as tools. Each is bound alone, with a call required. *Compiled*: llguidance took the "
            "grammar. *Written*: the target's text was made; its engine was not asked.",
            ("format", "target", "what was done", "taken", "refused"),
            asked,
            [reason for reason, _ in counts.reasons.most_common(_MOST_NOTES)],
            words=3,
        ),
        Table(
            "What had to be widened",
            f"Keywords that llguidance's own schema compiler does not take and that are left to the checker: "
            f"{counts.widened} tools of {counts.admitted} have one at least. Where it calls a schema unsatisfiable, no "
            "value fits, and the checker will refuse every call. This is about arguments that are JSON, as in hermes; "
            "those of qwen\\_xml are lowered by Ferrule, and what that leaves out is not counted here.",
            ("keyword", "why", "tools"),
            losses,
            counts.lost_at[:_MOST_NOTES],
            words=2,
        ),
        Table(
            "Type names that are not JSON Schema's",
            "Replaced by rule before anything else, since the documents use the type names of Python, Java and "
            "JavaScript. A document is counted once for each of its names, a place each time.",
            ("name", "taken as", "documents", "places"),
            rules,
            words=2,
        ),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    reader = argparse.ArgumentParser(prog="scripts/long bfcl-rules", description=(__doc__ or "").partition("\n")[0])
    reader.parse_args(arguments)
    if not (_WHEEL / _DATA).is_dir():
        raise DataMissing("BFCL's data is not there", hint="run scripts/setup-oracles --bfcl")
    console = Console()
    documents = function_documents(_WHEEL / _DATA)
    found = distinct(documents)
    counts = count(track(found, "tools", console=console), Counts(len(documents)))
    made = tables(counts)
    for table in made:
        show(table, console)
    pin = (_WHEEL / ".pins").read_text(encoding="utf-8").strip()
    parts = [_COMMAND, counted_with(pin), *map(markdown, made)]
    publish(_SECTION, _HEADING, parts)


if __name__ == "__main__":
    main()
