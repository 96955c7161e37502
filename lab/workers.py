"""Start the worker processes that run other parsers and renderers, and send them requests.

They run in their own interpreters under `.cache/venvs`, because their dependencies conflict with Ferrule's. The
requests and answers are documented in `peers.worker`, `oracles.worker` and `clients.worker`.
"""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from ferrule.errors import FerruleError
from lab.paths import CACHE, ROOT

# Registers only the folder of `lab`, so that nothing else of this checkout shadows the interpreter's own packages.
_BOOTSTRAP: Final = """
import runpy, sys, types
sys.modules["lab"] = types.ModuleType("lab")
sys.modules["lab"].__path__ = [sys.argv[1]]
module = sys.argv.pop(2)
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


class WorkerLost(FerruleError):
    """The process cannot be started, or ended during a request."""

    code = "bench_worker_lost"


class Worker:
    """A worker process. Use as a context manager; `ask` sends one request and returns its answer."""

    def __init__(self, interpreter: Path, module: str, hint: str = "", python_path: Path | None = None) -> None:
        if not interpreter.exists():
            raise WorkerLost(f"{interpreter} is not there", hint=hint)
        self._process = subprocess.Popen(
            [str(interpreter), "-c", _BOOTSTRAP, str(ROOT / "lab"), module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            env=None if python_path is None else {**os.environ, "PYTHONPATH": str(python_path)},
        )

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise WorkerLost(f"the worker ended with status {self._process.wait()}")
        return json.loads(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()


def others() -> Worker:
    """vLLM's and SGLang's parsers."""
    interpreter = CACHE / "venvs" / "others" / "bin" / "python"
    return Worker(interpreter, "lab.peers.worker", hint="run scripts/setup-oracles --others")


def oracles() -> Worker:
    """The vendors' own renderers and parsers."""
    interpreter = CACHE / "venvs" / "oracles" / "bin" / "python"
    return Worker(interpreter, "lab.oracles.worker", hint="run scripts/setup-oracles")


def clients() -> Worker:
    """OpenAI's and Anthropic's own Python clients."""
    interpreter = CACHE / "venvs" / "clients" / "bin" / "python"
    return Worker(interpreter, "lab.clients.worker", hint="run scripts/setup-oracles")
