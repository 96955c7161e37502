"""Build a rule for every tool of BFCL v4 and every target: `scripts/long bfcl-rules`.

Each distinct function document is admitted, bound alone in two formats with a call required, and emitted for each
target. What Ferrule refuses is counted with its reason; any other failure is a bug and ends the run.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from rich.console import Console
from rich.progress import track

from ferrule.bench.bfcl_tools import RULES, FunctionDocument, distinct_documents, function_documents
from ferrule.bench.tables import Table, markdown, print_table
from ferrule.core.request import ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.errors import FerruleError
from ferrule.rules.gbnf import emit_gbnf
from ferrule.rules.json_schema import emit_json_schema
from ferrule.rules.lark import emit_lark
from ferrule.rules.matcher import grammar_error
from ferrule.rules.relaxation import relax
from ferrule.rules.rule import Rule
from ferrule.rules.structural_tag import emit_structural_tag
from ferrule.schema.admission import admit
from ferrule.wire.registry import all_formats
from ferrule.wire.rule_builder import bind
from lab.paths import CACHE
from lab.results_page import publish
from lab.versions import describe_versions

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


class DataMissingError(FerruleError):
    """BFCL's data is not available."""

    code = "bench_data_missing"


class CompileError(FerruleError):
    """A target's own compiler refuses the emitted grammar."""

    code = "bench_uncompiled"


def _lark(rule: Rule) -> None:
    reason = grammar_error(emit_lark(rule))
    if reason:
        raise CompileError(reason)


# Emitters by target; each raises if it refuses the rule. Only Lark's compiler is available here.
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
    """The results for all tools. The pairs are (format, target)."""

    documents: int
    distinct: int = 0
    admitted: int = 0
    accepted: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    refused: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    reasons: Counter[str] = field(default_factory=Counter[str])
    rules: Counter[str] = field(default_factory=Counter[str])
    tools_by_rule: Counter[str] = field(default_factory=Counter[str])
    widened: int = 0
    losses: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """How many tools lose a keyword at least once, by keyword and reason."""
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
    losses = relax(tool.parameters).losses
    counts.losses.update({(loss.keyword, loss.reason) for loss in losses})
    counts.lost_at.extend(f"{tool.name}: {loss.path}" for loss in losses)
    counts.widened += bool(losses)
    required = ToolChoice.required()
    for name in FORMATS:
        form = all_formats()[name]
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
        counts.accepted[place] += 1


def tables(counts: Counts) -> list[Table]:
    places = [*((name, target) for name in FORMATS for target in TARGETS), (NO_FORMAT, JSON_SCHEMA)]
    target_rows = [
        (
            *place,
            "compiled" if place[1] in COMPILED else "emitted",
            *map(str, (counts.accepted[place], counts.refused[place])),
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
            f"BFCL contains {counts.documents} function documents, of which {counts.distinct} are distinct; "
            f"{counts.admitted} of these were admitted as tools. Each is bound alone, with a call required. "
            "*Compiled*: llguidance compiled the grammar. *Emitted*: the target's text was generated, but not compiled "
            "by its engine.",
            ("format", "target", "step", "accepted", "refused"),
            target_rows,
            [reason for reason, _ in counts.reasons.most_common(_MOST_NOTES)],
            text_columns=3,
        ),
        Table(
            "Keywords that had to be relaxed",
            f"Keywords that llguidance's own schema compiler does not support and that are left to the validator: "
            f"{counts.widened} tools of {counts.admitted} have at least one. If it calls a schema unsatisfiable, no "
            "value matches, and the validator refuses every call. This concerns arguments that are JSON, as in hermes; "
            "those of qwen\\_xml are lowered by Ferrule, and what that leaves out is not counted here.",
            ("keyword", "reason", "tools"),
            losses,
            counts.lost_at[:_MOST_NOTES],
            text_columns=2,
        ),
        Table(
            "Type names that are not JSON Schema's",
            "Replaced before anything else, because the documents use the type names of Python, Java and JavaScript. "
            "*documents* counts each document once per name, *places* every occurrence.",
            ("name", "replaced by", "documents", "places"),
            rules,
            text_columns=2,
        ),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    reader = argparse.ArgumentParser(prog="scripts/long bfcl-rules", description=(__doc__ or "").partition("\n")[0])
    reader.parse_args(arguments)
    if not (_WHEEL / _DATA).is_dir():
        raise DataMissingError("BFCL's data is not installed", hint="run scripts/setup-oracles --bfcl")
    console = Console()
    documents = function_documents(_WHEEL / _DATA)
    distinct = distinct_documents(documents)
    counts = count(track(distinct, "tools", console=console), Counts(len(documents)))
    result_tables = tables(counts)
    for table in result_tables:
        print_table(table, console)
    pin = (_WHEEL / ".pins").read_text(encoding="utf-8").strip()
    parts = [_COMMAND, describe_versions(pin), *map(markdown, result_tables)]
    publish(_SECTION, _HEADING, parts)


if __name__ == "__main__":
    main()
