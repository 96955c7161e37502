"""Generate the page of schema keywords, `docs/reference/schema-keywords.md`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields

from ferrule.errors import SchemaError
from ferrule.schema.admission import DEFAULT_LIMITS
from ferrule.schema.target_limits import CHECKED_FORMATS, HINTS, LIMITS, Coverage, Limit
from lab.pages.markdown import code, lines, table
from lab.pages.raise_sites import raise_sites

_HEAD = """# Schema keywords

Generated from `src/ferrule/schema/target_limits.py` and the modules it uses by `scripts/docs --pages`; a test checks
that it is current. Other tests prove each row with texts that the real matcher must accept or refuse.

Each keyword in a tool's schema is in one of three states, and
[the receipt](../explanation/engines.md#the-receipt) of a call says which:

- **enforced**: while decoding. The model cannot write a value that does not match.
- **nearly**: the model cannot write most values that do not match. The rest is checked after decoding.
- **checked after**: the model can write any value. A call whose value does not match is refused.

`ferrule explain tools.json` shows the same for your own tools, keyword by keyword.

## Which column counts

| arguments | target | engines | column |
| --- | --- | --- | --- |
| JSON | Lark | llama.cpp with llguidance | JSON under llguidance |
| JSON | GBNF, structural tag | llama.cpp without it, vLLM, SGLang | lowered |
| tagged, Python, typed literals | any | any that takes a grammar | lowered |
| any | none | OpenAI, Anthropic, Ollama | neither: everything is checked after |

An engine that accepts only a JSON Schema gets the schema unchanged. Ferrule does not know which keywords that engine
enforces, so everything is checked after.

## Keywords

"""
_FORMATS = """
## Formats

Values of `format`. A format that is not in this table is shown to the model but not checked; the receipt lists it.

"""
_REFUSED = """
## Refused

Schemas can come from untrusted sources, so every schema is validated before it is used. An error has a code and a JSON
pointer to the keyword, and is raised before anything is generated.

"""
_LIMITS = """
These are the limits:

"""
_COVERAGE_TEXTS = {
    Coverage.ENFORCED: "enforced",
    Coverage.APPROXIMATED: "approximated",
    Coverage.UNENFORCED: "checked after",
}
_FORMAT = "format:"
# Rows about how a value is written, not about a keyword of JSON Schema.
_NOT_A_KEYWORD = ("property order", "property names")


def keywords_page() -> str:
    return "".join(
        (
            _HEAD,
            table(("keyword", "JSON under llguidance", "lowered", "to have more enforced"), _keyword_rows()),
            _FORMATS,
            table(("format", "JSON under llguidance", "lowered"), _format_rows()),
            _REFUSED,
            table(("code", "what to do"), _refused_rows()),
            _LIMITS,
            table(("limit", "default"), _limit_rows()),
        )
    )


def _limit_rows() -> Iterator[tuple[str, ...]]:
    for one in fields(DEFAULT_LIMITS):
        most: int = getattr(DEFAULT_LIMITS, one.name)
        yield code(one.name), f"{most:,}"


def _keyword_rows() -> Iterator[tuple[str, ...]]:
    for keyword in _names(_keyword_of):
        # If everything is enforced, there is nothing to change.
        is_held = all(row.coverage is Coverage.ENFORCED for row in _rows(keyword, _keyword_of))
        label = keyword if keyword in _NOT_A_KEYWORD else code(keyword)
        yield label, *_cells(keyword, _keyword_of), "" if is_held else HINTS.get(keyword, "")


def _format_rows() -> Iterator[tuple[str, ...]]:
    for name in _names(_format_of):
        assert name in CHECKED_FORMATS, f"{name} has a row and is not checked"
        yield code(name), *_cells(name, _format_of)


def _refused_rows() -> Iterator[tuple[str, ...]]:
    hints: dict[str, dict[str, None]] = {}
    for one in raise_sites():
        if one.kind is SchemaError and one.path.startswith("schema/") and one.code not in _OF_PYTHON:
            hints.setdefault(one.code, {}).update(dict.fromkeys([one.hint] if one.hint else []))
    for name in sorted(hints):
        yield code(name), lines(hints[name])


# Raised when a schema is inferred from a Python function, not when one is admitted.
_OF_PYTHON = ("argument_mismatch", "unnamed_function", "unresolved_annotation", "unsupported_annotation")


def _keyword_of(row: Limit) -> str:
    return "" if row.keyword.startswith(_FORMAT) else row.keyword.partition(",")[0]


def _format_of(row: Limit) -> str:
    return row.keyword.removeprefix(_FORMAT) if row.keyword.startswith(_FORMAT) else ""


def _names(name_of: Callable[[Limit], str]) -> Iterable[str]:
    return dict.fromkeys(name for rows in LIMITS.values() for row in rows if (name := name_of(row)))


def _rows(name: str, name_of: Callable[[Limit], str]) -> Iterator[Limit]:
    return (row for rows in LIMITS.values() for row in rows if name_of(row) == name)


def _cells(name: str, name_of: Callable[[Limit], str]) -> Iterator[str]:
    for rows in LIMITS.values():
        # The general row comes before rows for special cases.
        matching = sorted((row for row in rows if name_of(row) == name), key=lambda row: bool(_case(row)))
        yield lines(map(_rule_text, matching))


def _rule_text(row: Limit) -> str:
    """The explanation of a row; empty if the keyword is fully enforced or not expressible."""
    how = "" if row.detail == "in full" or row.coverage is Coverage.UNENFORCED else row.detail.removeprefix("in full; ")
    return ": ".join(filter(None, (_case(row), _COVERAGE_TEXTS[row.coverage]))) + (f" ({how})" if how else "")


def _case(row: Limit) -> str:
    """`maximum, of numbers` is the case "of numbers"."""
    return row.keyword.partition(", ")[2]
