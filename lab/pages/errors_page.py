"""The page of errors: `docs/reference/errors.md` is this and nothing else."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from ferrule.errors import FerruleError
from lab.pages.markdown import code, lines, table
from lab.pages.raise_sites import Raised, all_raised, kinds

_HEAD = """---
hide:
  - toc
---

# Errors

Made from `src/ferrule/errors.py`, and from the places that raise what it defines, by `scripts/docs --pages`; a test
keeps it true.

Every error that Ferrule raises on purpose is a `FerruleError` and carries four things:

- `code`: stable, for programs. The gateway sends it as the error's `code`.
- `status`: what the gateway answers with.
- `retryable`: whether the same request may succeed later.
- `hint`: what a person should do next.

What a *model* does wrong is never an exception: it comes out of the parser as a diagnostic.

## The tree

A class has a code of its own; where it is raised for a narrower reason, it carries one of the codes in the next table.
Catch a class to catch all that are below it.

"""
# A code with more of them is a whole class of mistakes, and a list of all their remedies helps nobody.
_MOST_HINTS = 4
_CODES = """
## Codes

Every code that is written in the source, with the hints that come with it. `...` stands for a value that is filled in.

"""


def errors_page() -> str:
    tree = table(("error", "code", "status", "retryable", "meaning"), map(_class_row, kinds().values()))
    return _HEAD + tree + _CODES + table(("code", "error", "status", "retryable", "hint"), _code_rows())


def _class_row(kind: type[FerruleError]) -> tuple[str, ...]:
    depth = len(kind.__mro__) - len(FerruleError.__mro__)
    name = "· " * depth + code(kind.__name__)
    return name, code(kind.code), str(kind.status), _retry(kind), inspect.getdoc(kind) or ""


def _code_rows() -> Iterator[tuple[str, ...]]:
    by_code: dict[tuple[str, str], list[Raised]] = {}
    for one in sorted(all_raised(), key=lambda one: (one.code, one.kind.__name__)):
        by_code.setdefault((one.code, one.kind.__name__), []).append(one)
    for (name, kind), found in by_code.items():
        hints = dict.fromkeys(one.hint for one in found if one.hint)
        error = found[0].kind
        shown = lines(hints) if len(hints) <= _MOST_HINTS else "as the message needs it"
        yield code(name), code(kind), str(error.status), _retry(error), shown


def _retry(kind: type[FerruleError]) -> str:
    return "yes" if kind.retryable else ""
