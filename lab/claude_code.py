"""Claude Code, unmodified, against a gateway in a network namespace with loopback only and an empty HOME.

    python -m lab.claude_code [RUNS [OPTION...]]

enters the namespace (`unshare`), starts the gateway, the recorder and the client there, and prints one JSON line per
run: {"faults", "streams", "events", "calls", "read", "turns", "prompt_tokens", "statuses", "said", "interfaces"}.
Options of Claude Code replace the defaults, which keep the prompt small.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

from lab.gateway_clients import Clients, clients
from lab.gateway_process import gateway_process
from lab.gateway_recorder import Exchange, Recorder, start_recorder
from lab.gateway_verdicts import RunVerdict, api_of, call_faults
from lab.paths import CACHE
from lab.servers import MODEL, ServerFailedError

_FOLDER: Final = CACHE / "claude-code" / "node_modules" / "@anthropic-ai"
ENGINE: Final = f"llama:{MODEL}?threads=1&slots=1&context=4096"
_ENTER: Final = ("unshare", "--map-root-user", "--net", "--")
_INSIDE: Final = "--inside"
_SECONDS: Final = 300
# Settings for a small model: one tool, a short prompt, a short answer. The default prompt and tools are some 12,000
# tokens, more than this model's context was trained for.
SMALL: Final = (
    *("--bare", "--tools", "Read", "--allowedTools", "Read", "--max-turns", "3"),
    *("--system-prompt", "You read files with tools."),
)
_OUTPUT_OPTIONS: Final = ("--no-session-persistence", "--output-format", "stream-json", "--verbose")
_SETTINGS: Final = {
    "ANTHROPIC_API_KEY": "none",
    "ANTHROPIC_MODEL": "smol",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "160",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
}
POLICY: Final = {"FERRULE_SERVER_TOOL_CHOICE_POLICY": "required_first_hop"}
"""Claude Code lets the model decide whether to call; so small a model would only chat."""


def program() -> Path:
    programs = sorted(_FOLDER.glob("claude-code-*/claude"))
    if not programs:
        raise ServerFailedError("Claude Code is not installed", hint="run scripts/setup-clients --npm")
    return programs[0]


@contextmanager
def runs_inside(runs: int, options: Sequence[str]) -> Generator["subprocess.Popen[str]"]:
    """Start the process that makes the runs in its own namespace; it prints one line per run."""
    command = [*_ENTER, sys.executable, "-m", "lab.claude_code", _INSIDE, str(runs), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as process:
        try:
            yield process
        finally:
            # It ends its children and then itself when its output is closed.
            if process.stdout:
                process.stdout.close()
            process.wait()


def run_results(runs: int, options: Sequence[str] = SMALL) -> Generator[dict[str, Any]]:
    """Yield the results of the runs as they end."""
    with runs_inside(runs, options) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield json.loads(line)


def _inside(runs: int, options: Sequence[str]) -> None:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    interfaces = [name for _, name in socket.if_nameindex()]
    with (
        gateway_process(engine=ENGINE, environment=POLICY) as gateway,
        start_recorder(gateway.url) as recorder,
        clients() as client_processes,
    ):
        for _ in range(runs):
            print(json.dumps({**_run(recorder, client_processes, options), "interfaces": interfaces}), flush=True)


def _run(recorder: Recorder, client_processes: Clients, options: Sequence[str]) -> dict[str, Any]:
    recorder.take()
    with tempfile.TemporaryDirectory() as folder:
        home, work = Path(folder, "home"), Path(folder, "work")
        home.mkdir()
        work.mkdir()
        Path(work, "notes.txt").write_text("The word is ferrule.\n", encoding="utf-8")
        environment = {"PATH": os.environ["PATH"], "HOME": str(home), "ANTHROPIC_BASE_URL": recorder.url, **_SETTINGS}
        done = subprocess.run(
            [str(program()), "-p", "Read the file notes.txt", *options, *_OUTPUT_OPTIONS],
            check=False,
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=_SECONDS,
        )
    exchanges = recorder.take()
    messages: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    result: dict[str, Any] = next((one for one in messages if one["type"] == "result"), dict[str, Any]())
    end = result.get("subtype", "")
    # So small a model may keep calling. Every call counts, and Claude Code ends the loop.
    is_ended = done.returncode == 0 or end == "error_max_turns"
    faults = [] if is_ended else [f"it ended with {done.returncode} ({end}): {done.stderr[-300:]}"]
    return {**_verdict(messages, exchanges, client_processes, faults), "said": str(result.get("result", ""))}


def _verdict(
    messages: Sequence[dict[str, Any]], exchanges: list[Exchange], client_processes: Clients, faults: list[str]
) -> dict[str, Any]:
    blocks = [block for one in messages if one["type"] == "assistant" for block in one["message"]["content"]]
    calls = [
        [block["id"], block["name"], json.dumps(block["input"])] for block in blocks if block["type"] == "tool_use"
    ]
    user_blocks: list[Any] = [block for one in messages if one["type"] == "user" for block in one["message"]["content"]]
    answers = [cast("dict[str, Any]", block) for block in user_blocks if isinstance(block, dict)]
    results = [block for block in answers if block.get("type") == "tool_result"]
    if not calls:
        faults = [*faults, "there was no call"]
    if len(results) != len(calls):
        faults = [*faults, f"{len(calls)} calls, and {len(results)} results"]
    again = client_processes.check_exchanges(exchanges)
    verdict = RunVerdict(
        (*faults, *call_faults(calls, exchanges), *again.faults), again.streams, again.events, len(calls)
    )
    counts = [_prompt_tokens(one) for one in exchanges if api_of(one)]
    return {
        "faults": list(verdict.faults),
        "streams": verdict.streams,
        "events": verdict.events,
        "calls": verdict.calls,
        "read": sum(not block.get("is_error") for block in results),
        "prompt_tokens": counts,
        "turns": len(counts),
        "statuses": [one.status for one in exchanges if api_of(one)],
    }


def _prompt_tokens(exchange: Exchange) -> int:
    """The prompt tokens that the gateway reported."""
    deltas = [one.value.get("usage", {}) for one in exchange.events if one.value.get("type") == "message_delta"]
    return next((int(usage["input_tokens"]) for usage in deltas if usage.get("input_tokens")), 0)


def main() -> None:
    if sys.argv[1:2] == [_INSIDE]:
        _inside(int(sys.argv[2]), sys.argv[3:])
        return
    for verdict in run_results(int(sys.argv[1]) if len(sys.argv) > 1 else 1, sys.argv[2:] or SMALL):
        print(json.dumps(verdict), flush=True)


if __name__ == "__main__":
    main()
