"""ToolProcesses: runs functions in worker processes, which are killed at their deadline. Unix only.

A worker is a new interpreter in a process group of its own. It imports the functions by name and runs one call at a
time. Requests and answers are lines of JSON on pipes and never pickles, because what a worker sends is a guest's text
and must not become code here. The other end is `tool_process_worker`.

At most once: a request is one line, and its line break is its last byte. A request that could not be written whole did
not reach the function. After that, a worker that dies or is killed leaves the outcome open, and no call is sent again.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from types import FunctionType
from typing import Any, cast

from ferrule.core.context import CallContext
from ferrule.core.media import Media
from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.errors import DefinitionError, ToolError

WORKER_DIED = "worker_died"
"""The code of a call whose process died while it ran."""
WORKER_UNAVAILABLE = "worker_unavailable"
"""The code of a call that was not delivered because no worker process could be started."""
MAX_ANSWER_BYTES = 64 * 1024 * 1024
_MAX_IDLE = 16
_POLL_SECONDS = 0.2
"""How often a silent worker is checked. A process that it forked may keep its pipe open after its death."""
_READ_BYTES = 1 << 16
# The worker finds modules where this process does, whatever changed `sys.path` here.
_MAIN = (
    "import json, runpy, sys; sys.path[:] = json.loads(sys.argv.pop()); "
    f"runpy.run_module('{__package__}.tool_process_worker', run_name='__main__')"
)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FunctionReference:
    """Where a worker finds a function. `file` is empty if its module can be imported by its name."""

    module: str
    file: str
    qualname: str

    @staticmethod
    def of(function: Callable[..., Any], name: str) -> FunctionReference:
        """The reference of a function of a module; `DefinitionError` for any other callable."""
        module = sys.modules.get(getattr(function, "__module__", None) or "")
        qualname = getattr(function, "__qualname__", "")
        if not isinstance(function, FunctionType) or "<" in qualname or _target(module, qualname) is not function:
            raise DefinitionError(
                f"the tool {name!r} cannot run in a process of its own: it is not a function of a module",
                hint='Define it at the top of a module that can be imported, or leave out isolation="process".',
            )
        file = getattr(module, "__file__", None)
        if _is_importable(function.__module__, file):
            return FunctionReference(function.__module__, "", qualname)
        if not file:
            raise DefinitionError(
                f"the tool {name!r} cannot run in a process of its own: its module has no file",
                hint="Move it from the interactive session to a .py file.",
            )
        return FunctionReference(function.__module__, os.path.abspath(file), qualname)


def _target(module: object, qualname: str) -> object:
    """What a name means in a module; of a tool, its function."""
    value: Any = module
    for part in qualname.split("."):
        value = getattr(value, part, None)
    return getattr(value, "function", value)


def _is_importable(module: str, file: str | None) -> bool:
    if "." in module:
        return True
    spec = None if module == "__main__" else PathFinder.find_spec(module)
    return spec is not None and (file is None or (spec.origin is not None and os.path.abspath(file) == spec.origin))


class _DiedError(Exception):
    """The worker died, or broke the protocol. The text says how, after "its process"."""


class _LateError(Exception):
    """The deadline passed."""


class _RaisedError(Exception):
    """What a function raised in its worker; the text is its traceback there."""


class _Worker:
    """One worker process."""

    def __init__(self, setup: Mapping[str, Any], deadline: float | None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _MAIN, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            # A group of its own, so that what the function forks dies with it.
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._stdin, False)
        os.set_blocking(self._stdout, False)
        self._received = bytearray()
        try:
            self.send(setup, deadline)
            failure = self.receive(deadline).get("failed")
            if failure is not None:
                raise _DiedError(f"could not load its functions ({failure})")
        except (_DiedError, _LateError):
            self.close()
            raise

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def send(self, message: Mapping[str, Any], deadline: float | None) -> None:
        """Write a line. If it raises, the worker did not get the whole line."""
        left = memoryview(json.dumps(message).encode() + b"\n")
        while left:
            self._wait(self._stdin, select.POLLOUT, deadline)
            try:
                left = left[os.write(self._stdin, left) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise _DiedError(self._ending()) from error

    def receive(self, deadline: float | None) -> Mapping[str, Any]:
        """Read a line."""
        searched = 0
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            if searched > 2 * MAX_ANSWER_BYTES:
                raise _DiedError("sent more than an answer may hold")
            self._wait(self._stdout, select.POLLIN, deadline)
            try:
                chunk = os.read(self._stdout, _READ_BYTES)
            except BlockingIOError:
                continue
            if not chunk:
                raise _DiedError(self._ending())
            self._received += chunk
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            raise _DiedError("sent an answer that is not one")
        return cast("dict[str, Any]", message)

    def kill(self) -> None:
        """End the worker and everything in its process group. Another thread may be waiting for its answer."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        # A function may have left the group.
        self._process.kill()

    def close(self) -> None:
        """Kill the worker and close its pipes."""
        self.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _wait(self, descriptor: int, event: int, deadline: float | None) -> None:
        poller = select.poll()
        poller.register(descriptor, event)
        while True:
            seconds = _POLL_SECONDS if deadline is None else min(_POLL_SECONDS, deadline - time.time())
            was_alive = self.is_alive
            if poller.poll(max(0.0, seconds) * 1000):
                return
            if not was_alive:
                raise _DiedError(self._ending())
            if seconds <= 0:
                raise _LateError

    def _ending(self) -> str:
        """How the process ended. A closed pipe may be noticed before the end itself."""
        try:
            code = self._process.wait(_POLL_SECONDS)
        except subprocess.TimeoutExpired:
            return "closed its pipe"
        if code >= 0:
            return f"exited with code {code}"
        with suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
        return f"was killed by signal {-code}"


@dataclass(slots=True)
class ToolProcesses:
    """The worker processes of one source. A worker is used again by the same tenant, and by no other.

    `run` blocks, so it is called in a thread. The caller bounds how many run at once, and so the workers.
    """

    references: Sequence[FunctionReference]
    memory_bytes: int = 0
    """How much address space a worker may have (`RLIMIT_AS`); 0 is no limit."""
    _idle: list[tuple[str, _Worker]] = field(default_factory=list[tuple[str, _Worker]])
    """Workers without a call, each with its tenant, the one that was used last at the end."""
    _all: set[_Worker] = field(default_factory=set[_Worker])
    _is_closed: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(
        self, name: str, index: int, arguments: Mapping[str, Any], context: CallContext, *, side_effects: bool
    ) -> Outcome:
        """Run one of the functions and return its outcome."""
        request = _request(index, arguments, context)
        try:
            worker = self._take(context)
        except (_DiedError, _LateError, OSError) as error:
            why = str(error) or "did not start before the deadline"
            return NotDelivered(f"it did not run: its process {why}", code=WORKER_UNAVAILABLE)
        is_reusable = False
        try:
            try:
                worker.send(request, context.deadline)
            except (_DiedError, _LateError):
                return NotDelivered("it did not run: its process died before", code=WORKER_UNAVAILABLE)
            answer = _answer(worker, request["id"], context)
            is_reusable = not answer.get("has_children", True)
            return _outcome(name, answer)
        except _LateError:
            return _lost("did not return by the deadline and was killed", "timeout", side_effects)
        except _DiedError as error:
            return _lost(f"{error} while it ran", WORKER_DIED, side_effects)
        finally:
            self._give_back(worker, context.principal.tenant, is_reusable=is_reusable)

    def close(self) -> None:
        """Kill all workers, also those with a call."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = [worker for _, worker in self._idle], []
            busy = self._all.difference(idle)
        for worker in busy:
            # Its thread notices the end, and closes it.
            worker.kill()
        for worker in idle:
            self._discard(worker)

    def _take(self, context: CallContext) -> _Worker:
        tenant = context.principal.tenant
        while (idle := self._pop_idle(tenant)) is not None:
            if idle.is_alive:
                return idle
            self._discard(idle)
        setup = {
            "functions": [[one.module, one.file, one.qualname] for one in self.references],
            "memory_bytes": self.memory_bytes,
        }
        worker = _Worker(setup, context.deadline)
        with self._lock:
            self._all.add(worker)
            is_closed = self._is_closed
        if is_closed:
            self._discard(worker)
            raise _DiedError("was closed")
        return worker

    def _pop_idle(self, tenant: str) -> _Worker | None:
        with self._lock:
            for at in reversed(range(len(self._idle))):
                if self._idle[at][0] == tenant:
                    return self._idle.pop(at)[1]
        return None

    def _give_back(self, worker: _Worker, tenant: str, *, is_reusable: bool) -> None:
        surplus: _Worker | None = worker
        with self._lock:
            if is_reusable and not self._is_closed:
                self._idle.append((tenant, worker))
                surplus = self._idle.pop(0)[1] if len(self._idle) > _MAX_IDLE else None
        if surplus is not None:
            self._discard(surplus)

    def _discard(self, worker: _Worker) -> None:
        with self._lock:
            self._all.discard(worker)
        worker.close()


def _request(index: int, arguments: Mapping[str, Any], context: CallContext) -> dict[str, Any]:
    principal = context.principal
    return {
        "id": secrets.token_hex(8),
        "function": index,
        "arguments": dict(arguments),
        "context": {
            "call_id": context.call_id,
            "conversation": context.conversation,
            "deadline": context.deadline,
            "hops": context.hops,
        },
        "principal": [
            principal.name,
            principal.tenant,
            None if principal.scopes is None else sorted(principal.scopes),
        ],
    }


def _answer(worker: _Worker, id: str, context: CallContext) -> Mapping[str, Any]:
    while True:
        message = worker.receive(context.deadline)
        if message.get("id") != id:
            # A process that the function forked, or the function itself, wrote into the pipe.
            raise _DiedError("sent an answer to another call")
        match message.get("progress"):
            case None:
                return message
            case [int() | float() as done, int() | float() | None as total, str() as text]:
                context.report(done, total, text)
            case _:
                raise _DiedError("sent progress that is none")


def _outcome(name: str, answer: Mapping[str, Any]) -> Outcome:
    match answer:
        case {"value": value, "media": media}:
            parts = cast("list[dict[str, Any]]", media)
            return Answered(value, media=tuple(map(Media.from_dict, parts)))
        case {"value": value}:
            return Answered(value)
        case {"error": str() as message, "code": str() as code}:
            return Answered(message, is_error=True, code=code)
        case {"raised": str() as kind, "trace": str() as trace}:
            _log.error("the tool %r raised %s", name, kind, exc_info=_RaisedError(trace))
            return Answered(f"the tool failed ({kind})", is_error=True, code=ToolError.code)
        case _:
            raise _DiedError("sent an answer that is not one")


def _lost(what: str, code: str, side_effects: bool) -> Outcome:
    if side_effects:
        return Unknown(f"its process {what}", code=code)
    return Answered(f"{code}: the tool's process {what}", is_error=True, code=code)
