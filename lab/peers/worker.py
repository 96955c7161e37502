"""The worker process that runs vLLM's and SGLang's parsers for a comparison; one JSON line per request and per answer.

Request: {"engine": "vllm" | "sglang", "parser": name, "mode": "batch", "text": text, "tools": [...]}
      {"engine": ..., "parser": ..., "mode": "stream", "chunks": [text, ...], "tools": [...]}
      {"engine": ..., "mode": "names"}
Answer: {"content", "calls": [{"name", "arguments"}], "error", "seconds"}; "seconds" is CPU time of the parse alone.
`names` answers {"names": [...], "seconds"}.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from lab.line_server import serve
from lab.peers import sglang, vllm

_ENGINES: Final = {"vllm": vllm, "sglang": sglang}


def prepare(request: Mapping[str, Any]) -> Callable[[], Mapping[str, Any]]:
    engine = _ENGINES[request["engine"]]
    match request["mode"]:
        case "batch":
            return engine.prepared_batch(request["parser"], request["text"], request["tools"])
        case "stream":
            return engine.prepared_stream(request["parser"], request["chunks"], request["tools"])
        case "names":
            return lambda: {"names": engine.names()}
        case mode:
            raise ValueError(f"mode {mode!r} is none of batch, stream, names")


if __name__ == "__main__":
    serve(prepare, blank={"content": "", "calls": []})
