"""Generate the page of errors, `docs/reference/errors.md`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from ferrule.errors import FerruleError
from lab.pages.markdown import code, lines, table
from lab.pages.raise_sites import RaiseSite, kinds, raise_sites

_HEAD = """---
hide:
  - toc
---

# Errors

Generated from `src/ferrule/errors.py`, and from the places that raise these errors, by `scripts/docs --pages`; a test
checks that it is current.

Every error that Ferrule raises on purpose is a `FerruleError` and has four fields:

- `code`: stable, for programs. The gateway sends it as the error's `code`.
- `status`: the HTTP status of the gateway's response.
- `retryable`: whether the same request may succeed later.
- `hint`: what to do next.

Malformed *model* output never raises an exception: the parser reports it as a diagnostic.

## The tree

Each class has a default code. If it is raised for a more specific reason, it has one of the codes in the next table.
Catch a class to catch all its subclasses.

"""
# A code with more hints covers many different mistakes, and a list of all hints would not help.
_MOST_HINTS = 4
_CODES = """
## Codes

Every code in the source, with its hints. `...` stands for a value that is filled in at run time.

"""


def errors_page() -> str:
    tree = table(("error", "code", "status", "retryable", "meaning"), map(_class_row, kinds().values()))
    return _HEAD + tree + _CODES + table(("code", "error", "status", "retryable", "hint"), _code_rows())


def _class_row(kind: type[FerruleError]) -> tuple[str, ...]:
    depth = len(kind.__mro__) - len(FerruleError.__mro__)
    name = "· " * depth + code(kind.__name__)
    return name, code(kind.code), str(kind.status), _retry(kind), inspect.getdoc(kind) or ""


def _code_rows() -> Iterator[tuple[str, ...]]:
    by_code: dict[tuple[str, str], list[RaiseSite]] = {}
    for one in sorted(raise_sites(), key=lambda one: (one.code, one.kind.__name__)):
        by_code.setdefault((one.code, one.kind.__name__), []).append(one)
    for (name, kind), sites in by_code.items():
        hints = dict.fromkeys(one.hint for one in sites if one.hint)
        error = sites[0].kind
        hint_text = lines(hints) if len(hints) <= _MOST_HINTS else "depends on the message"
        yield code(name), code(kind), str(error.status), _retry(error), hint_text


def _retry(kind: type[FerruleError]) -> str:
    return "yes" if kind.retryable else ""
