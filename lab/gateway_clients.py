"""Run real clients, unmodified, against `ferrule serve` on a real model: `scripts/long gateway-clients`.

Each client runs in its own venv and goes through a recorder, so that the HTTP traffic is checked too.
"""

from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from lab.client_runs import ClientRun
from lab.gateway_process import gateway_process
from lab.gateway_recorder import Exchange, Recorder, start_recorder
from lab.gateway_verdicts import Ask, RunVerdict, call_faults, stream_faults
from lab.paths import CACHE
from lab.workers import Worker

_WORKER: Final = "lab.clients.gateway_worker"
_READS: Final = {"chat": "openai", "responses": "openai", "messages": "anthropic"}
"""The venv that has the types of an API."""


def client(venv: str) -> Worker:
    """One of the clients that `scripts/setup-clients` installs."""
    interpreter = CACHE / "venvs" / f"client-{venv}" / "bin" / "python"
    return Worker(interpreter, _WORKER, hint="run scripts/setup-clients")


@dataclass(slots=True)
class Clients:
    """The clients, each started once, on first use."""

    stack: ExitStack
    _started: dict[str, Worker] = field(default_factory=dict[str, Worker])

    def ask(self, venv: str, op: str, options: Mapping[str, Any]) -> dict[str, Any]:
        if venv not in self._started:
            self._started[venv] = self.stack.enter_context(client(venv))
        return self._started[venv].ask({"op": op, "given": dict(options)})

    def check_exchanges(self, exchanges: list[Exchange]) -> RunVerdict:
        """Validate the answers with the types of the clients they were sent to."""

        def reader(venv: str) -> Ask:
            def ask(request: Mapping[str, Any]) -> dict[str, Any]:
                return self.ask(venv, request["op"], request["given"])

            return ask

        return stream_faults(exchanges, {api: reader(venv) for api, venv in _READS.items()})


@contextmanager
def clients() -> Generator[Clients]:
    with ExitStack() as stack:
        yield Clients(stack)


@dataclass(slots=True)
class ClientBench:
    """A gateway on a real model, a recorder in front of it, and clients."""

    recorder: Recorder
    clients: Clients
    gateway: str

    def ask(self, venv: str, op: str, **options: Any) -> dict[str, Any]:
        return self.clients.ask(venv, op, {"url": self.recorder.url, **options})

    def run(self, client_run: ClientRun) -> RunVerdict:
        """Run a client once; check the calls that it returned and the answers that it got."""
        self.recorder.take()
        summary = self.ask(client_run.venv, client_run.op)
        exchanges = self.recorder.take()
        calls = summary["calls"]
        faults = [f"the client raised {summary['error']}"] if summary["error"] else []
        if len(calls) < client_run.calls or (client_run.max_calls is not None and len(calls) > client_run.max_calls):
            faults.append(f"the client returned {len(calls)} calls")
        if client_run.tool and any(name != client_run.tool for _, name, _ in calls):
            faults.append(f"{client_run.tool} was named, and another was called")
        faults += call_faults(calls, exchanges)
        expects_stream = client_run.is_streamed
        if any(one.is_stream is not expects_stream for one in exchanges if one.status == 200):
            faults.append(f"it was {'not ' if expects_stream else ''}streamed")
        replay = self.clients.check_exchanges(exchanges)
        return RunVerdict((*faults, *replay.faults), replay.streams, replay.events, len(calls))


@contextmanager
def client_bench(*arguments: str, **options: Any) -> Generator[ClientBench]:
    """Start the gateway, the recorder and the clients."""
    with (
        gateway_process(arguments, **options) as gateway,
        start_recorder(gateway.url) as recorder,
        clients() as started_clients,
    ):
        yield ClientBench(recorder, started_clients, gateway.url)
