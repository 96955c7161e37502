"""The page of schema keywords: `docs/reference/schema-keywords.md` is this and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields

from ferrule.errors import SchemaError
from ferrule.schema.admission import DEFAULT_LIMITS
from ferrule.schema.target_limits import CHECKED_FORMATS, HINTS, LIMITS, Limit, Say
from lab.pages.markdown import code, lines, table
from lab.pages.raise_sites import all_raised

_HEAD = """# Schema keywords

Made from `src/ferrule/schema/target_limits.py` and what it gathers by `scripts/docs --pages`; a test keeps it true, and
other tests prove each row with texts that the real matcher must take or refuse.

Of every keyword in a tool's schema one of these is true, and [the receipt](../explanation/engines.md#the-receipt) of
a call says which:

- **enforced**: while decoding. What does not fit cannot be written.
- **nearly**: most of what does not fit cannot be written. The rest is checked after decoding.
- **checked after**: anything can be written there, and what does not fit is never handed on as a call.

`ferrule explain tools.json` says the same of your own tools, place by place.

## Which column counts

| arguments | target | engines | column |
| --- | --- | --- | --- |
| JSON | Lark | llama.cpp with llguidance | JSON under llguidance |
| JSON | GBNF, structural tag | llama.cpp without it, vLLM, SGLang | lowered |
| tagged, Python, typed literals | any | any that takes a grammar | lowered |
| any | none | OpenAI, Anthropic, Ollama | neither: everything is checked after |

An engine that takes a JSON Schema and nothing else is handed the schema as it is. What of it holds is up to that
engine, so everything is checked after.

## Keywords

"""
_FORMATS = """
## Formats

Values of `format`. A format that is not in this table is told to the model and checked by nobody; the receipt lists it.

"""
_REFUSED = """
## Refused

A schema comes from a stranger as often as from you, so it is admitted before anything is done with it. What is refused
is refused with a code and a JSON pointer to the place, before anything is generated.

"""
_LIMITS = """
These are the limits, each a field of `ferrule.schema.admission.Limits`:

"""
_WORDS = {Say.ENFORCED: "enforced", Say.APPROXIMATED: "nearly", Say.NOT_SAYABLE: "checked after"}
_FORMAT = "format:"
# Rows about how a value is written and not about a keyword that anybody could write down.
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
        # Where everything is enforced there is nothing to change.
        is_held = all(row.say is Say.ENFORCED for row in _rows(keyword, _keyword_of))
        shown = keyword if keyword in _NOT_A_KEYWORD else code(keyword)
        yield shown, *_cells(keyword, _keyword_of), "" if is_held else HINTS.get(keyword, "")


def _format_rows() -> Iterator[tuple[str, ...]]:
    for name in _names(_format_of):
        assert name in CHECKED_FORMATS, f"{name} has a row and is not checked"
        yield code(name), *_cells(name, _format_of)


def _refused_rows() -> Iterator[tuple[str, ...]]:
    hints: dict[str, dict[str, None]] = {}
    for one in all_raised():
        if one.kind is SchemaError and one.path.startswith("schema/") and one.code not in _OF_PYTHON:
            hints.setdefault(one.code, {}).update(dict.fromkeys([one.hint] if one.hint else []))
    for name in sorted(hints):
        yield code(name), lines(hints[name])


# Raised where a schema is read off a Python function, not where one is admitted.
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
        # What holds in general comes before what holds in a case.
        found = sorted((row for row in rows if name_of(row) == name), key=lambda row: bool(_case(row)))
        yield lines(map(_said, found))


def _said(row: Limit) -> str:
    """What is left out, or held in full, needs no more words."""
    how = "" if row.how == "in full" or row.say is Say.NOT_SAYABLE else row.how.removeprefix("in full; ")
    return ": ".join(filter(None, (_case(row), _WORDS[row.say]))) + (f" ({how})" if how else "")


def _case(row: Limit) -> str:
    """`maximum, of numbers` is the case "of numbers"."""
    return row.keyword.partition(", ")[2]
