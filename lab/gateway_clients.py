"""Real clients, unmodified, against `ferrule serve` on a real model: `scripts/long gateway-clients`.

Each client runs in a venv of its own and asks through a recorder, so that what went over the wire is judged, too.
"""

from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from lab.client_runs import Way
from lab.gateway_process import gateway_process
from lab.gateway_recorder import Exchange, Recorder, recorded
from lab.gateway_verdicts import Ask, Judged, call_faults, stream_faults
from lab.paths import CACHE
from lab.workers import Worker

_WORKER: Final = "lab.clients.gateway_worker"
_READS: Final = {"chat": "openai", "responses": "openai", "messages": "anthropic"}
"""Whose venv has the types of an API."""


def client(venv: str) -> Worker:
    """One of the clients that `scripts/setup-clients` brings."""
    interpreter = CACHE / "venvs" / f"client-{venv}" / "bin" / "python"
    return Worker(interpreter, _WORKER, hint="run scripts/setup-clients")


@dataclass(slots=True)
class Clients:
    """The clients that were needed so far, each started once."""

    stack: ExitStack
    _started: dict[str, Worker] = field(default_factory=dict[str, Worker])

    def ask(self, venv: str, op: str, given: Mapping[str, Any]) -> dict[str, Any]:
        if venv not in self._started:
            self._started[venv] = self.stack.enter_context(client(venv))
        return self._started[venv].ask({"op": op, "given": dict(given)})

    def judged(self, exchanges: list[Exchange]) -> Judged:
        """What was sent, read again by the types of the clients it was sent to."""

        def reader(venv: str) -> Ask:
            def ask(asked: Mapping[str, Any]) -> dict[str, Any]:
                return self.ask(venv, asked["op"], asked["given"])

            return ask

        return stream_faults(exchanges, {api: reader(venv) for api, venv in _READS.items()})


@contextmanager
def clients() -> Generator[Clients]:
    with ExitStack() as stack:
        yield Clients(stack)


@dataclass(slots=True)
class Scene:
    """A gateway on a real model, a recorder before it, and clients that ask it."""

    recorder: Recorder
    clients: Clients
    gateway: str

    def ask(self, venv: str, op: str, **given: Any) -> dict[str, Any]:
        return self.clients.ask(venv, op, {"url": self.recorder.url, **given})

    def run(self, way: Way) -> Judged:
        """One run of a way: what the client handed on, and what it was sent."""
        self.recorder.taken()
        told = self.ask(way.venv, way.op)
        exchanges = self.recorder.taken()
        calls = told["calls"]
        faults = [f"the client raised {told['error']}"] if told["error"] else []
        if len(calls) < way.calls or (way.most is not None and len(calls) > way.most):
            faults.append(f"{len(calls)} calls were handed on")
        if way.tool and any(name != way.tool for _, name, _ in calls):
            faults.append(f"{way.tool} was named, and another was called")
        faults += call_faults(calls, exchanges)
        wanted = way.is_streamed
        if any(one.is_stream is not wanted for one in exchanges if one.status == 200):
            faults.append(f"it was {'not ' if wanted else ''}streamed")
        again = self.clients.judged(exchanges)
        return Judged((*faults, *again.faults), again.streams, again.events, len(calls))


@contextmanager
def scene(*arguments: str, **how: Any) -> Generator[Scene]:
    """All of it, from when the gateway is up."""
    with gateway_process(arguments, **how) as gateway, recorded(gateway.url) as recorder, clients() as started:
        yield Scene(recorder, started, gateway.url)
