"""Run Ray Serve LLM in front of vLLM on loopback: start it, wait for it, and always end it with all of Ray."""

import os
import shutil
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from lab.paths import CACHE
from lab.servers import CHECKPOINT, HOME, TEMPLATE, VLLM_ENVIRONMENT, ServerFailedError, free_port, run_server

SITE: Final = CACHE / "venvs" / "vllm" / "lib" / "python3.11" / "site-packages"
_PYTHON: Final = CACHE / "venvs" / "vllm" / "bin" / "python"
_WORKER: Final = Path(__file__).parent / "peers" / "ray_server_worker.py"
_FIELD_OF_SESSION: Final = 3
"""Index of the field in /proc/PID/stat, counted after the process name, which may contain anything."""


@contextmanager
def ray_server(template: Path = TEMPLATE, replicas: int = 1) -> Generator[str]:
    """Run Ray Serve LLM with this many vLLM replicas; yields its URL. Takes one to three minutes to start."""
    if not (SITE / "ray").exists():
        raise ServerFailedError("Ray is not installed", hint="run scripts/setup-ray")
    port = free_port()
    # A short name: the paths of Ray's sockets begin with it and have a maximum length.
    folder = CACHE / "ray" / str(port)
    folder.mkdir(parents=True)
    HOME.mkdir(parents=True, exist_ok=True)
    # -P: next to the worker is a module called vllm, which is not the engine.
    command = [str(_PYTHON), "-P", str(_WORKER), str(CHECKPOINT), str(port), str(folder), str(replicas), str(template)]
    environment = {**VLLM_ENVIRONMENT, "TMPDIR": str(folder)}
    try:
        with run_server("ray-serve", command, environment, port, _is_ready, 600, end_session) as url:
            yield url
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def end_session(process: "subprocess.Popen[bytes]", patience: float = 60) -> None:
    """Let the process clean up, then end the remaining processes of its session by id.

    Ray's workers have their own process groups, so ending the first process's group does not end them.
    """
    process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
    finally:
        while pids := members_of_session(process.pid):
            for pid in pids:
                _kill(pid)
            process.poll()


def members_of_session(session: int) -> list[int]:
    """The ids of a session's running processes."""
    pids: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        # Z: a zombie. It has ended, but its parent has not collected its status.
        if int(fields[_FIELD_OF_SESSION]) == session and fields[0] != "Z":
            pids.append(int(entry.name))
    return pids


def _is_ready(url: str, log: Path) -> bool:
    """Whether Ray reports that it is ready. Its HTTP front answers long before the engines are up."""
    return f"ready {url.rpartition(':')[2]}\n".encode() in log.read_bytes()


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
