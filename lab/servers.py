"""Run real engines as processes on loopback, for live tests and measurements: start, wait for readiness, always end."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ferrule.errors import FerruleError
from lab.paths import CACHE

MODEL: Final = CACHE / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
QWEN: Final = CACHE / "weights" / "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
LARGER_QWEN: Final = CACHE / "weights" / "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
"""Downloaded by `scripts/setup-weights`; the larger one is for long runs."""
CHECKPOINT: Final = CACHE / "models" / "smollm2"
TEMPLATE: Final = CACHE / "templates" / "Qwen-Qwen2.5-7B-Instruct.jinja"
"""SmolLM2's own template has no tool support; this one was written for Hermes calls, which the model can imitate."""
_LLAMA: Final = CACHE / "venvs" / "llama" / "bin" / "python"
_VLLM: Final = CACHE / "venvs" / "vllm" / "bin" / "vllm"
_LOGS: Final = CACHE / "logs"
_WORKER: Final = Path(__file__).parent / "peers" / "llama_server_worker.py"
HOME: Final = CACHE / "vllm-home"
VLLM_ENVIRONMENT: Final[Mapping[str, str]] = {
    **{"HOME": str(HOME), "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"},
    **{"VLLM_HOST_IP": "127.0.0.1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_NUM_OF_RESERVED_CPU": "0"},
    # On two cores, a thread that spins while waiting blocks the other processes of vLLM.
    "OMP_WAIT_POLICY": "passive",
}
"""Makes vLLM offline, quiet and reachable on loopback only."""

ON_GUIDANCE: Final = ("--structured-outputs-config", '{"backend": "guidance"}')
"""Makes vLLM use llguidance for grammars. Its default is xgrammar."""

IsUp = Callable[[str, Path], bool]
"""Whether a server is ready, given its URL and its log."""


class ServerFailedError(FerruleError):
    """An engine did not start."""

    code = "bench_server_failed"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def end_group(process: "subprocess.Popen[bytes]") -> None:
    """End the process and everything it started, which is all in its own process group."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            return
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            continue
    sys.stdout.flush()


def kill_group(process: "subprocess.Popen[bytes]") -> None:
    """Kill the process group with SIGKILL, like a crash."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def llama_server(
    template: Path | None = TEMPLATE,
    slots: int = 4,
    context: int = 4096,
    port: int = 0,
    end: Callable[["subprocess.Popen[bytes]"], None] = end_group,
    weights: Path = MODEL,
    embeddings: str = "",
) -> Generator[str]:
    """Run llama.cpp's own server; yields its URL. `embeddings` is its pooling, such as "mean"."""
    port = port or free_port()
    command = [str(_LLAMA), str(_WORKER), str(weights), str(port), str(slots), str(context * slots)]
    command += [str(template or "")]
    command += [embeddings] if embeddings else []
    with run_server("llama-server", command, {}, port, answers("/health"), 60, end) as url:
        yield url


@contextmanager
def vllm_server(template: Path | None = TEMPLATE, arguments: Sequence[str] = ()) -> Generator[str]:
    """Run vLLM on the CPU; yields its URL. Takes about 40 seconds to start."""
    port = free_port()
    HOME.mkdir(parents=True, exist_ok=True)
    command = [str(_VLLM), "serve", str(CHECKPOINT), "--served-model-name", "smol", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--dtype", "float32", "--max-model-len", "4096", "--max-num-seqs", "16"]
    command += ["--enforce-eager", "--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
    command += [*(["--chat-template", str(template)] if template else []), *arguments]
    with run_server("vllm", command, VLLM_ENVIRONMENT, port, answers("/health"), 300) as url:
        yield url


def answers(path: str) -> IsUp:
    """A readiness check: the server answers a GET with 200."""

    def is_up(url: str, _: Path) -> bool:
        try:
            with urllib.request.urlopen(url + path, timeout=2) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    return is_up


@contextmanager
def run_server(
    name: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    port: int,
    is_up: IsUp,
    patience: float,
    end: Callable[["subprocess.Popen[bytes]"], None] = end_group,
) -> Generator[str]:
    """Run a server in its own session and wait until it is ready; yields its URL."""
    if not Path(command[0]).exists():
        raise ServerFailedError(f"{name} is not installed", hint="run scripts/setup-llama and scripts/setup-vllm")
    _LOGS.mkdir(parents=True, exist_ok=True)
    log = _LOGS / f"{name}-{port}.log"
    url = f"http://127.0.0.1:{port}"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, env={**os.environ, **environment}, start_new_session=True
        )
        try:
            _wait(name, process, lambda: is_up(url, log), patience, log)
            yield url
        finally:
            end(process)


def _wait(name: str, process: "subprocess.Popen[bytes]", is_up: Callable[[], bool], patience: float, log: Path) -> None:
    until = time.monotonic() + patience
    while time.monotonic() < until and process.poll() is None:
        if is_up():
            return
        time.sleep(0.2)
    raise ServerFailedError(f"{name} did not start; the end of its log: {log.read_text(errors='replace')[-600:]}")
