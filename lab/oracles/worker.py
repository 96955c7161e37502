"""The worker process that runs the vendors' renderers and parsers; one JSON line per request and per answer.

Messages and tools are OpenAI's. Asks, by "oracle" and "op":

    templates  names                                   {"names"}
               render   "template" (a file's name) or "source", "messages", "tools", "options", "now"
                                                       {"text", "sandbox"}
    mistral    render   "version", "messages", "tools", "finished"     {"text"}
    harmony    render   "messages", "tools"            {"text"}
               parse    "text"                         {"messages"}
    melody     render   "version", "messages", "tools" {"text"}
               parse    "version", "text" or "chunks"  {"content", "reasoning", "calls"}
    qwen_agent render   "messages", "tools"            {"turns"}
               parse    "text"                         {"content", "calls"}

Every answer also has "error" (null on success) and "seconds" of CPU.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from lab.line_server import serve
from lab.oracles import harmony, melody, mistral, qwen_agent, templates

Request = Mapping[str, Any]
_NOON: Final = "2026-07-01T12:00:00"


def _render_template(request: Request) -> Mapping[str, Any]:
    source = request["source"] if "source" in request else templates.source(request["template"])
    options = request.get("options", {})
    return templates.render(source, request["messages"], request.get("tools"), options, request.get("now", _NOON))


def _render_mistral(request: Request) -> Mapping[str, Any]:
    finished = bool(request.get("finished"))
    return {
        "text": mistral.render(request["version"], request["messages"], request.get("tools"), finished=finished),
    }


def _parse_melody(request: Request) -> Mapping[str, Any]:
    return melody.parse(request["version"], request["chunks"] if "chunks" in request else [request["text"]])


OPERATIONS: Final[Mapping[tuple[str, str], Callable[[Request], Mapping[str, Any]]]] = {
    ("templates", "names"): lambda _request: {"names": templates.names()},
    ("templates", "render"): _render_template,
    ("mistral", "render"): _render_mistral,
    ("harmony", "render"): lambda request: {"text": harmony.render(request["messages"], request.get("tools", []))},
    ("harmony", "parse"): lambda request: {"messages": harmony.parse(request["text"])},
    ("melody", "render"): lambda request: {
        "text": melody.render(request["version"], request["messages"], request.get("tools", []))
    },
    ("melody", "parse"): _parse_melody,
    ("qwen_agent", "render"): lambda request: {
        "turns": qwen_agent.render(request["messages"], request.get("tools", []))
    },
    ("qwen_agent", "parse"): lambda request: qwen_agent.parse(request["text"]),
}


def prepare(request: Request) -> Callable[[], Mapping[str, Any]]:
    operation = OPERATIONS[request["oracle"], request["op"]]
    return lambda: {"error": None, **operation(request)}


if __name__ == "__main__":
    serve(prepare)
