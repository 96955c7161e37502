"""The process that runs one client against a gateway; one JSON line asks, one answers.

Asks by "op", which is a module and a function of this folder ("live_openai.chat_create"), with "given": {"url", "key",
"model", "more"}. Answers {"calls": [[id, name, arguments], ...], "text", "finish"}; of `replay.replayed`, see there.
Every answer also has "error": null, or what the client raised, by the name of its own class.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from lab.line_server import serve

_PACKAGE: Final = "lab.clients"
_SECONDS: Final = 300


def prepare(request: Mapping[str, Any]) -> Callable[[], Mapping[str, Any]]:
    module, _, name = request["op"].partition(".")
    # The client itself is found where it is used: every venv has one of them.
    operation: Callable[[Any], Mapping[str, Any]] = getattr(importlib.import_module(f"{_PACKAGE}.{module}"), name)
    return lambda: {"error": None, **operation(request["given"])}


if __name__ == "__main__":
    serve(prepare, {"calls": [], "text": "", "finish": None}, _SECONDS)
