"""Ray Serve LLM in front of vLLM, as a process on loopback: started, waited for, and surely ended with all of Ray."""

import os
import shutil
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from lab.paths import CACHE
from lab.servers import CHECKPOINT, HOME, TEMPLATE, VLLM_ENVIRONMENT, ServerFailed, free_port, running

SITE: Final = CACHE / "venvs" / "vllm" / "lib" / "python3.11" / "site-packages"
_PYTHON: Final = CACHE / "venvs" / "vllm" / "bin" / "python"
_WORKER: Final = Path(__file__).parent / "others" / "ray_server_worker.py"
_FIELD_OF_SESSION: Final = 3
"""In what the kernel tells of a process, counted after its name, which may hold anything."""


@contextmanager
def ray_server(template: Path = TEMPLATE, replicas: int = 1) -> Generator[str]:
    """Ray Serve LLM with so many vLLMs behind it; gives its address. Takes one to three minutes to come up."""
    if not (SITE / "ray").exists():
        raise ServerFailed("Ray is not installed", hint="run scripts/setup-ray")
    port = free_port()
    # A short name, since the names of Ray's sockets begin with it and have an end.
    folder = CACHE / "ray" / str(port)
    folder.mkdir(parents=True)
    HOME.mkdir(parents=True, exist_ok=True)
    # -P: the worker lies beside a module called vllm, which is not the engine.
    command = [str(_PYTHON), "-P", str(_WORKER), str(CHECKPOINT), str(port), str(folder), str(replicas), str(template)]
    environment = {**VLLM_ENVIRONMENT, "TMPDIR": str(folder)}
    try:
        with running("ray-serve", command, environment, port, _says_ready, 600, end_session) as url:
            yield url
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def end_session(process: "subprocess.Popen[bytes]", patience: float = 60) -> None:
    """Lets the process put away what it started, then ends what is left of its session, by id.

    Ray's workers have process groups of their own, so that ending the first process's group does not end them.
    """
    process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
    finally:
        while left := members_of_session(process.pid):
            for pid in left:
                _kill(pid)
            process.poll()


def members_of_session(session: int) -> list[int]:
    """The processes of a session that still run."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            told = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        # Z: ended, and only its parent has not yet asked how.
        if int(told[_FIELD_OF_SESSION]) == session and told[0] != "Z":
            found.append(int(entry.name))
    return found


def _says_ready(url: str, log: Path) -> bool:
    """Ray's front answers long before the engines behind it, so its own word is waited for."""
    return f"ready {url.rpartition(':')[2]}\n".encode() in log.read_bytes()


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
