"""The worker process that asks xgrammar which texts a structural tag admits; one JSON line per request and per answer.

Request: {"tag": {...}, "texts": [text, ...]}
Answer: {"accepted": [bool, ...], "error", "seconds"}; "seconds" is CPU time of reading the tag, unless it was asked
about just before, and all texts.
"""

import importlib
import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from lab.line_server import serve


@lru_cache(maxsize=8)
def _grammar(tag: str) -> Any:
    return importlib.import_module("xgrammar").Grammar.from_structural_tag(tag)


def prepare(request: Mapping[str, Any]) -> Callable[[], Mapping[str, Any]]:
    admits: Any = importlib.import_module("xgrammar.testing")._is_grammar_accept_string
    tag, texts = json.dumps(request["tag"]), request["texts"]

    def check() -> Mapping[str, Any]:
        grammar = _grammar(tag)
        return {"accepted": [admits(grammar, text) for text in texts], "error": None}

    return check


if __name__ == "__main__":
    # Before the first request: on a busy machine the import takes longer than a request may.
    importlib.import_module("xgrammar.testing")
    serve(prepare, blank={"accepted": []})
