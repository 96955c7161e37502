"""The worker process that runs one client against a gateway; one JSON line per request and per answer.

A request has "op", a module and a function of this folder ("live_openai.chat_create"), and "given": {"url", "key",
"model", "more"}. The answer is {"calls": [[id, name, arguments], ...], "text", "finish"}; for `replay.check_answer` see
there. Every answer also has "error": null, or the exception that the client raised, by its class name.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from lab.line_server import serve

_PACKAGE: Final = "lab.clients"
_SECONDS: Final = 300


def prepare(request: Mapping[str, Any]) -> Callable[[], Mapping[str, Any]]:
    module, _, name = request["op"].partition(".")
    # Imported here, because every venv has only one of the clients.
    operation: Callable[[Any], Mapping[str, Any]] = getattr(importlib.import_module(f"{_PACKAGE}.{module}"), name)
    return lambda: {"error": None, **operation(request["given"])}


if __name__ == "__main__":
    serve(prepare, {"calls": [], "text": "", "finish": None}, _SECONDS)
