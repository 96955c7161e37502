"""The main function of a worker process of `tool_processes`: runs functions, one call after the other.

The pipe to the gateway is not standard output, so what a function prints goes to standard error. When the gateway is
gone, the worker and all that it started end.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import os
import queue
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType
from typing import Any, BinaryIO

from ferrule.core.context import CallContext, Principal, Progress
from ferrule.core.outcome import Answered
from ferrule.errors import FerruleError
from ferrule.sources.functions import ToolFunction
from ferrule.sources.tool_output import limit_media, to_json_value, with_media
from ferrule.sources.tool_processes import MAX_ANSWER_BYTES

_MAIN_MODULE = "__main__"
_MAIN_NAME = "__ferrule_main__"
"""The name of the program's own module here, so that its `if __name__ == "__main__"` does not run."""

Answer = dict[str, Any]


def main() -> None:
    """Serve until the gateway ends this process or closes the pipe."""
    requests, send = _take_pipes()
    setup = json.loads(requests.readline())
    try:
        functions: list[ToolFunction] = _load(setup)
    # The module is a guest's code, and the gateway must learn that it cannot be imported.
    except BaseException as error:
        send({"failed": type(error).__name__})
        raise
    send({"ready": True})
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(requests, lines), daemon=True).start()
    pid = os.getpid()
    while True:
        request: dict[str, Any] = json.loads(lines.get())
        answer = _run(functions[int(request["function"])], request, send)
        if os.getpid() != pid:
            # The function forked, and its child returned here too. Only the worker itself answers.
            os._exit(0)
        send({"id": request["id"], "has_children": _has_children(), **answer})


def _take_pipes() -> tuple[BinaryIO, Callable[[Answer], None]]:
    """Keep the pipes for this module alone: functions get an empty input, and print to standard error."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    lock = threading.Lock()

    def send(answer: Answer) -> None:
        left = memoryview(json.dumps(answer).encode() + b"\n")
        # A function may report its progress from threads of its own.
        with lock:
            while left:
                left = left[os.write(answers, left) :]

    return requests, send


def _read(requests: BinaryIO, lines: queue.SimpleQueue[bytes]) -> None:
    for line in requests:
        lines.put(line)
    # The gateway closed the pipe or died, possibly while a function runs.
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(0)


def _load(setup: Mapping[str, Any]) -> list[ToolFunction]:
    if setup["memory_bytes"]:
        resource.setrlimit(resource.RLIMIT_AS, (setup["memory_bytes"], setup["memory_bytes"]))
    functions: list[ToolFunction] = []
    for module, file, qualname in setup["functions"]:
        value: Any = _module_from_file(module, file) if file else importlib.import_module(module)
        for part in qualname.split("."):
            value = getattr(value, part)
        functions.append(ToolFunction.of(value))
    return functions


def _module_from_file(name: str, file: str) -> ModuleType:
    name = _MAIN_NAME if name == _MAIN_MODULE else name
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    # Type hints are resolved by name in the module, which is looked up in sys.modules.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _run(function: ToolFunction, request: Mapping[str, Any], send: Callable[[Answer], None]) -> Answer:
    name, tenant, scopes = request["principal"]
    context = CallContext(
        principal=Principal(name, tenant, None if scopes is None else frozenset(scopes)),
        on_progress=partial(_send_progress, send, request["id"]),
        **request["context"],
    )
    try:
        if function.is_async:
            value = asyncio.run(function.run_async(request["arguments"], context))
        else:
            value = function.run(request["arguments"], context)
        answer = limit_media(with_media(Answered(to_json_value(value))))
        value = answer.content
        media = [one.as_dict() for one in answer.media]
        size = len(json.dumps(value))
    except FerruleError as error:
        return {"error": error.message, "code": error.code}
    # A tool's code may raise anything, also `SystemExit`, and the worker lives on.
    except BaseException as error:
        return {"raised": type(error).__name__, "trace": "".join(traceback.format_exception(error))}
    if size > MAX_ANSWER_BYTES:
        return {"error": f"the tool ran, and its answer of {size} bytes is too large", "code": "result_too_large"}
    return {"value": value, "media": media} if media else {"value": value}


def _send_progress(send: Callable[[Answer], None], id: str, progress: Progress) -> None:
    send({"id": id, "progress": [progress.done, progress.total, str(progress.message)]})


def _has_children() -> bool:
    """Whether the call left processes behind. The gateway then ends them, and this worker with them."""
    if not hasattr(os, "waitid"):
        return False
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


if __name__ == "__main__":
    main()
