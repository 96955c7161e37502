"""The worker process that times how xgrammar reads and compiles a structural tag; one JSON line per request and answer.

Request: {"tag": {...}, "compiles": bool, "vocabulary": path, "tokens": how many of its first tokens are used}
Answer: {"read", "compile", "error", "seconds"}; "read" is CPU seconds from the tag to xgrammar's grammar, "compile"
from there to the grammar with its masks for the vocabulary, on one thread and with no cache of its own; null if the
request says that it is not to be compiled.
"""

import base64
import importlib
import json
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from lab.line_server import serve


@lru_cache(maxsize=1)
def _compiler(vocabulary: str, tokens: int) -> Any:
    xgrammar: Any = importlib.import_module("xgrammar")
    lines = Path(vocabulary).read_bytes().splitlines()[:tokens]
    read = [base64.b64decode(line.split()[0]) for line in lines]
    tokenizer_info = xgrammar.TokenizerInfo([*read, b"<|end|>"], stop_token_ids=[len(read)])
    return xgrammar.GrammarCompiler(tokenizer_info, max_threads=1, cache_enabled=False)


def prepare(request: Mapping[str, Any]) -> Callable[[], Mapping[str, Any]]:
    grammars: Any = importlib.import_module("xgrammar").Grammar
    compiler = _compiler(request["vocabulary"], request["tokens"])
    tag = json.dumps(request["tag"])

    def compile_tag() -> Mapping[str, Any]:
        started = time.process_time()
        grammar = grammars.from_structural_tag(tag)
        read = time.process_time()
        if request["compiles"]:
            compiler.compile_grammar(grammar)
        spent = time.process_time() - read
        return {"read": read - started, "compile": spent if request["compiles"] else None, "error": None}

    return compile_tag


if __name__ == "__main__":
    # Before the first request: on a busy machine the import takes longer than a request may.
    importlib.import_module("xgrammar")
    serve(prepare, blank={"read": None, "compile": None})
