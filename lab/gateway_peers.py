"""The measured servers: the upstream itself, Ferrule's gateway in front of it in two setups, and LiteLLM's proxy."""

import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from lab.gateway_process import gateway_process
from lab.paths import CACHE
from lab.servers import ServerFailedError, end_group, free_port

LITELLM: Final = CACHE / "venvs" / "litellm" / "bin" / "litellm"
_UPSTREAM: Final = Path(__file__).with_name("paced_upstream.py")
_LITELLM_QUIET: Final = {
    **{"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR", "LITELLM_TELEMETRY": "False"},
    # Both gateways are used without a key.
    **{"DO_NOT_TRACK": "1", "NO_DOCS": "True", "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true"},
}


@dataclass(frozen=True, slots=True)
class Peer:
    """A server and its process. `url` ends where `/chat/completions` begins."""

    name: str
    url: str
    pid: int


@contextmanager
def upstream() -> Generator[tuple[str, int]]:
    port = free_port()
    command = [sys.executable, str(_UPSTREAM), str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield f"http://127.0.0.1:{port}", process.pid
        finally:
            end_group(process)


@contextmanager
def ferrule_chat(
    upstream_url: str, pace: int | str, environment: Mapping[str, str] = MappingProxyType({})
) -> Generator[Peer]:
    """In front of a chat API: calls are parsed, checked and written again."""
    engine = f"m=openai:m?url={upstream_url}/{pace}/v1&key=x"
    with gateway_process(engine=engine, environment=environment) as gateway:
        yield Peer("ferrule, chat upstream", f"{gateway.url}/v1", gateway.process.pid)


@contextmanager
def ferrule_text(
    upstream_url: str, pace: int | str, environment: Mapping[str, str] = MappingProxyType({})
) -> Generator[Peer]:
    """In front of raw completions: the gateway does the prompt, the rule, the parsing and the checks."""
    engine = f"m=vllm:{upstream_url}/{pace}?format=hermes&model=m"
    with gateway_process(engine=engine, environment=environment) as gateway:
        yield Peer("ferrule, raw completions", f"{gateway.url}/v1", gateway.process.pid)


@contextmanager
def litellm(upstream_url: str, pace: int) -> Generator[Peer]:
    if not LITELLM.exists():
        raise ServerFailedError("LiteLLM is not installed", hint="run scripts/setup-litellm")
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.yaml"
        config.write_text(
            "model_list:\n  - model_name: m\n    litellm_params:\n      model: openai/m\n"
            f"      api_base: {upstream_url}/{pace}/v1\n      api_key: x\n"
            "litellm_settings:\n  telemetry: false\n"
        )
        command = [str(LITELLM), "--config", str(config), "--port", str(port), "--host", "127.0.0.1"]
        log = CACHE / "logs" / "litellm.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*command, "--num_workers", "1"],
                stdout=out,
                stderr=out,
                env={**os.environ, **_LITELLM_QUIET},
                start_new_session=True,
            )
            try:
                _wait(process, f"http://127.0.0.1:{port}/health/liveliness", log)
                yield Peer("LiteLLM", f"http://127.0.0.1:{port}/v1", process.pid)
            finally:
                end_group(process)


def _wait(process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    until = time.monotonic() + 180
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    raise ServerFailedError(f"LiteLLM did not start; the end of its log: {log.read_text(errors='replace')[-600:]}")
