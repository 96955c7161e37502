"""Question 2: does a call survive being rendered and parsed again?

The checkpoint's own chat template renders one and two calls with difficult values; the parsers for its family (vLLM's,
SGLang's and ours) parse them. And for every format, our renderer renders them and our parser parses them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from ferrule.bench.tables import Table
from ferrule.core.call import ToolCall
from ferrule.core.reply import Reply
from ferrule.errors import UnrenderableError
from ferrule.wire.format import Format
from ferrule.wire.registry import all_formats
from ferrule.wire.renderer import render
from lab import own_parser
from lab.reply_variants import Calls
from lab.template_formats import TEMPLATES, Template
from lab.template_turns import NoTurn, example_id, turn_of
from lab.verdict import difference
from lab.workers import Worker

Advance = Callable[[str], None]

ARGUMENTS: Final[Mapping[str, Any]] = {
    "city": "Pa\"r'is <b>\nline2",
    "days": 2,
    "opts": {"x": [1, True, None, "q"], "s": "v"},
}
# Some templates require descriptions and additionalProperties; they allow everything.
TOOLS: Final[tuple[dict[str, Any], ...]] = (
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather forecast for a city.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Where."},
                    "days": {"type": "integer", "description": "For how long."},
                    "opts": {"type": "object", "description": "What else.", "additionalProperties": {}},
                },
                "required": ["city"],
            },
        },
    },
)
COUNTS: Final = (1, 2)
READERS: Final = ("vllm", "sglang", "ours")
NAMES: Final = {"vllm": "vLLM", "sglang": "SGLang", "ours": "Ferrule"}
STEPS: Final = len(TEMPLATES) + 1
_NOT_ASKED: Final = "no parser"


def measure(others: Worker, oracles: Worker, advance: Advance) -> dict[str, Any]:
    templates: list[dict[str, Any]] = []
    for file, template in TEMPLATES.items():
        advance(file)
        for count in COUNTS:
            templates.append({"template": file, "format": template.format, "calls": count,
                              **_read_by_all(file, template, count, others, oracles)})  # fmt: skip
    advance("our own")
    own = [{"format": name, "calls": count, "ours": _own(form, count)} for name, form in all_formats().items()
           for count in COUNTS]  # fmt: skip
    return {"templates": templates, "own": own}


def _calls(count: int) -> Calls:
    return tuple(("get_weather", ARGUMENTS) for _ in range(count))


def _read_by_all(file: str, template: Template, count: int, others: Worker, oracles: Worker) -> dict[str, Any]:
    """Each parser's verdict: "ok", "lossy: ...", "ungradeable: ..." or that there is no parser."""
    try:
        text = turn_of(oracles, file, template, _calls(count), TOOLS)
    except NoTurn as refusal:
        return dict.fromkeys(READERS, f"ungradeable: {refusal.message}")
    verdicts: dict[str, Any] = {"text": text}
    for engine, parser in (("vllm", template.vllm), ("sglang", template.sglang)):
        if parser is None:
            verdicts[engine] = _NOT_ASKED
        else:
            request = {"engine": engine, "parser": parser, "mode": "batch", "text": text, "tools": list(TOOLS)}
            verdicts[engine] = _verdict(others.ask(request), count)
    if template.format is None:
        verdicts["ours"] = _NOT_ASKED
    else:
        form = all_formats()[template.format]
        verdicts["ours"] = _verdict(own_parser.stream(form, [text], own_parser.definitions(TOOLS)), count)
    return verdicts


def _verdict(outcome: Mapping[str, Any], count: int) -> str:
    lost = difference(_calls(count), outcome)
    return f"lossy: {lost}" if lost else "ok"


def _own(form: Format, count: int) -> str:
    if form.calls.max_calls is not None and count > form.calls.max_calls:
        return f"ungradeable: the format allows {form.calls.max_calls} call per turn"
    tools = own_parser.definitions(TOOLS)
    calls = [ToolCall.of(name, arguments, id=example_id(form.ids, name, number))
            for number, (name, arguments) in enumerate(_calls(count))]  # fmt: skip
    try:
        text = render(form, Reply.of(*calls), tools)
    except UnrenderableError as refusal:
        return f"lossy: refused, {refusal.message}"
    return _verdict(own_parser.stream(form, [text], tools), count)


def tables(result: Mapping[str, Any]) -> list[Table]:
    rows: Sequence[Mapping[str, Any]] = result["templates"]
    verdicts = [[row[reader] for row in rows] for reader in READERS]
    tallies = [Counter(map(_kind, column)) for column in (*verdicts, [row["ours"] for row in result["own"]])]
    kinds = ("ok", "lossy", "ungradeable", _NOT_ASKED)
    lossy = [((row["template"], NAMES[reader], _why(row[reader])), row["calls"])
             for row in rows for reader in READERS if _kind(row[reader]) == "lossy"]  # fmt: skip
    ungraded = [((row["template"], _why(row["ours"])), row["calls"])
                for row in rows if _kind(row["ours"]) == "ungradeable"]  # fmt: skip
    return [
        Table(
            "Round trips",
            f"One call and two calls rendered by {len(TEMPLATES)} chat templates and parsed by every parser for that "
            "format. *Ungradeable*: the template raises, drops calls or has no tools. *No parser*: the engine has no "
            "parser for the format. In the last column our renderer rendered, for every format of ours.",
            ("verdict", *(f"template to {NAMES[reader]}" for reader in READERS), "Ferrule to Ferrule"),
            [[kind, *(str(tally[kind]) for tally in tallies)] for kind in kinds],
        ),
        Table("What was lost", "", ("template", "reader", "what", "with calls"), _group_rows(lossy), text_columns=4),
        Table("What could not be graded", "", ("template", "why", "with calls"), _group_rows(ungraded), text_columns=3),
    ]


def _group_rows(findings: Iterable[tuple[tuple[str, ...], int]]) -> list[list[str]]:
    """One row per finding, with the numbers of calls for which it occurred."""
    counts: dict[tuple[str, ...], list[str]] = {}
    for what, calls in findings:
        counts.setdefault(what, []).append(str(calls))
    return [[*what, ", ".join(calls)] for what, calls in counts.items()]


def _kind(verdict: str) -> str:
    return verdict.partition(":")[0]


def _why(verdict: str) -> str:
    return verdict.partition(": ")[2]
