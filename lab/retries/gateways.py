"""Two gateways on one ledger, each started again when it is killed."""

import contextlib
import os
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from lab.gateway_process import GatewayProcess, gateway_process
from lab.retries import tools

COUNT: Final = 2
_LEASE: Final = 3.0
"""Seconds: how long a retry waits for a gateway that was killed."""


class Gateways:
    """`open_upstream` is the URL of the engine. Each gateway asks it under a path of its own."""

    def __init__(self, folder: Path, ledger: str, *, approves: bool) -> None:
        self.folder = folder
        self.effects = folder / "effects.txt"
        self.effects.touch()
        self.ports = [_free_port() for _ in range(COUNT)]
        self.kills = 0
        self._ledger = ledger
        self._approves = approves
        self._running: dict[int, GatewayProcess] = {}
        self._is_over = threading.Event()
        self._threads: list[threading.Thread] = []

    def kill(self, number: int) -> None:
        gateway = self._running.get(number)
        if gateway is not None:
            self.kills += 1
            with contextlib.suppress(ProcessLookupError):
                os.kill(gateway.process.pid, 9)

    @contextmanager
    def serve(self, upstream: str) -> Generator[None]:
        ready = [threading.Event() for _ in self.ports]
        self._threads = [
            threading.Thread(target=self._keep_running, args=(number, upstream, ready[number]), daemon=True)
            for number in range(COUNT)
        ]
        for thread in self._threads:
            thread.start()
        for event in ready:
            event.wait()
        try:
            yield
        finally:
            self._is_over.set()
            for thread in self._threads:
                thread.join()

    def _keep_running(self, number: int, upstream: str, ready: threading.Event) -> None:
        config = self.folder / f"gateway{number}.toml"
        config.write_text(
            f'[engines.m]\nuse = "openai:m"\nurl = "{upstream}/gateway{number}/v1"\nkey = "x"\n'
            f'[server]\nledger = "{self._ledger}"\nlease_seconds = {_LEASE}\napproval_patience_seconds = 60\n'
            f"[tools]\ntools_require_confirmation_for_side_effects = {str(self._approves).lower()}\n"
            f'[sources]\nfunctions = ["{tools.__file__}"]\n',
            encoding="utf-8",
        )
        arguments = ["--config", str(config), "--port", str(self.ports[number])]
        while not self._is_over.is_set():
            environment = {tools.EFFECTS: str(self.effects)}
            with gateway_process(arguments, engine=None, environment=environment) as gateway:
                self._running[number] = gateway
                ready.set()
                while gateway.process.poll() is None and not self._is_over.wait(0.05):
                    pass


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
