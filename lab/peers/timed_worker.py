"""The worker process that times vLLM's and SGLang's parsers on one long reply; one JSON line per request and answer.

Request: {"engine": "vllm" | "sglang", "parser", "text", "specials": [...], "characters", "tools", "repeat", "limit"}
The answer is as in `worker`; "seconds" is CPU time of `repeat` parses. The reply is split as an engine would deliver
it, one token at a time: special tokens whole, other text in tokens of `characters` characters. Tokenization is the
engine's work and not timed. An answer that takes more than `limit` seconds has "error" TooSlow.
"""

import signal
from collections.abc import Callable, Mapping
from typing import Any, Final

from lab.line_server import serve
from lab.peers import sglang, tokens, vllm

_ENGINES: Final = {"vllm": vllm, "sglang": sglang}


def prepare(request: Mapping[str, Any]) -> Callable[[], Mapping[str, Any]]:
    tokens.PIECE = request["characters"]
    chunks = tokens.chunks(request["text"], request["specials"], 1)
    run = _ENGINES[request["engine"]].prepared_stream(request["parser"], chunks, request["tools"])

    def repeat_parse() -> Mapping[str, Any]:
        # Restart the timer for the parse alone: what came before was preparation.
        signal.setitimer(signal.ITIMER_PROF, request["limit"])
        for _ in range(request["repeat"] - 1):
            run()
        return run()

    return repeat_parse


if __name__ == "__main__":
    serve(prepare, blank={"content": "", "calls": []})
