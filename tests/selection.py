"""Which test files can have a test that `-m` selects, read from their text and without importing them."""

from __future__ import annotations

import itertools
import re

_MARKERS = ("live", "long", "oracle")
_ON_MODULE = re.compile(r"^pytestmark = \[?pytest\.mark\.(\w+)(?:, pytest\.mark\.(\w+))?\]?$", re.MULTILINE)
_ANYWHERE = re.compile(r"\bmark\.(\w+)")


def may_have_selected_tests(text: str, expression: str) -> bool:
    """Whether a test file can have a test that `-m` selects, as far as its text shows without importing it."""
    match = _ON_MODULE.search(text)
    on_all = set(match.groups()) if match else set[str | None]()
    on_some = [name for name in _MARKERS if name in _ANYWHERE.findall(text) and name not in on_all]
    for values in itertools.product((False, True), repeat=len(on_some)):
        names = {name: name in on_all for name in _MARKERS} | dict(zip(on_some, values, strict=True))
        try:
            if eval(expression, {"__builtins__": {}}, names):
                return True
        except (NameError, SyntaxError, TypeError):
            # It selects by a marker that is not one of ours.
            return True
    return False
