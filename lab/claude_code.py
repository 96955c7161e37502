"""Claude Code, unmodified, against a gateway in a network namespace with loopback only and an empty HOME.

    python -m lab.claude_code [RUNS [OPTION...]]

enters the namespace (`unshare`), starts gateway, recorder and client in there, and tells one JSON line for each run:
{"faults", "streams", "events", "calls", "read", "turns", "prompt_tokens", "statuses", "said", "interfaces"}. Options of
Claude Code's own replace those that make it small.
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
from lab.gateway_recorder import Exchange, Recorder, recorded
from lab.gateway_verdicts import Judged, api_of, call_faults
from lab.paths import CACHE
from lab.servers import MODEL, ServerFailed

_FOLDER: Final = CACHE / "claude-code" / "node_modules" / "@anthropic-ai"
ENGINE: Final = f"llama:{MODEL}?threads=1&slots=1&context=4096"
_ENTER: Final = ("unshare", "--map-root-user", "--net", "--")
_INSIDE: Final = "--inside"
_SECONDS: Final = 300
# What a person sets who runs it on a small model: one tool, a short prompt, a short answer. Its default prompt and
# tools are some 12,000 tokens, more than this model has ever seen at once.
SMALL: Final = (
    *("--bare", "--tools", "Read", "--allowedTools", "Read", "--max-turns", "3"),
    *("--system-prompt", "You read files with tools."),
)
_TELLING: Final = ("--no-session-persistence", "--output-format", "stream-json", "--verbose")
_SETTINGS: Final = {
    "ANTHROPIC_API_KEY": "none",
    "ANTHROPIC_MODEL": "smol",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "160",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
}
POLICY: Final = {"FERRULE_SERVER_TOOL_CHOICE_POLICY": "required_first_hop"}
"""Claude Code leaves it to the model whether to call; so small a model would chat."""


def program() -> Path:
    found = sorted(_FOLDER.glob("claude-code-*/claude"))
    if not found:
        raise ServerFailed("Claude Code is not there", hint="run scripts/setup-clients --npm")
    return found[0]


@contextmanager
def runs_inside(runs: int, options: Sequence[str]) -> Generator["subprocess.Popen[str]"]:
    """The process that makes so many runs in a namespace of its own; its lines are what they came to."""
    command = [*_ENTER, sys.executable, "-m", "lab.claude_code", _INSIDE, str(runs), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as process:
        try:
            yield process
        finally:
            # It ends what it started, and then itself, when nobody reads what it says.
            if process.stdout:
                process.stdout.close()
            process.wait()


def judged(runs: int, options: Sequence[str] = SMALL) -> Generator[dict[str, Any]]:
    """One after the other, as they end."""
    with runs_inside(runs, options) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield json.loads(line)


def _inside(runs: int, options: Sequence[str]) -> None:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    interfaces = [name for _, name in socket.if_nameindex()]
    with (
        gateway_process(engine=ENGINE, environment=POLICY) as gateway,
        recorded(gateway.url) as recorder,
        clients() as started,
    ):
        for _ in range(runs):
            print(json.dumps({**_run(recorder, started, options), "interfaces": interfaces}), flush=True)


def _run(recorder: Recorder, started: Clients, options: Sequence[str]) -> dict[str, Any]:
    recorder.taken()
    with tempfile.TemporaryDirectory() as folder:
        home, work = Path(folder, "home"), Path(folder, "work")
        home.mkdir()
        work.mkdir()
        Path(work, "notes.txt").write_text("The word is ferrule.\n", encoding="utf-8")
        environment = {"PATH": os.environ["PATH"], "HOME": str(home), "ANTHROPIC_BASE_URL": recorder.url, **_SETTINGS}
        done = subprocess.run(
            [str(program()), "-p", "Read the file notes.txt", *options, *_TELLING],
            check=False,
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=_SECONDS,
        )
    exchanges = recorder.taken()
    told: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    result: dict[str, Any] = next((one for one in told if one["type"] == "result"), dict[str, Any]())
    end = result.get("subtype", "")
    # So small a model may go on calling: every call counts, and the loop is Claude Code's to end.
    is_ended = done.returncode == 0 or end == "error_max_turns"
    faults = [] if is_ended else [f"it ended with {done.returncode} ({end}): {done.stderr[-300:]}"]
    return {**_verdict(told, exchanges, started, faults), "said": str(result.get("result", ""))}


def _verdict(
    told: Sequence[dict[str, Any]], exchanges: list[Exchange], started: Clients, faults: list[str]
) -> dict[str, Any]:
    blocks = [block for one in told if one["type"] == "assistant" for block in one["message"]["content"]]
    calls = [
        [block["id"], block["name"], json.dumps(block["input"])] for block in blocks if block["type"] == "tool_use"
    ]
    said: list[Any] = [block for one in told if one["type"] == "user" for block in one["message"]["content"]]
    answers = [cast("dict[str, Any]", block) for block in said if isinstance(block, dict)]
    results = [block for block in answers if block.get("type") == "tool_result"]
    if not calls:
        faults = [*faults, "nothing was called"]
    if len(results) != len(calls):
        faults = [*faults, f"{len(calls)} calls, and {len(results)} results"]
    again = started.judged(exchanges)
    verdict = Judged((*faults, *call_faults(calls, exchanges), *again.faults), again.streams, again.events, len(calls))
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
    """What the gateway said that the prompt had."""
    deltas = [one.value.get("usage", {}) for one in exchange.events if one.value.get("type") == "message_delta"]
    return next((int(usage["input_tokens"]) for usage in deltas if usage.get("input_tokens")), 0)


def main() -> None:
    if sys.argv[1:2] == [_INSIDE]:
        _inside(int(sys.argv[2]), sys.argv[3:])
        return
    for verdict in judged(int(sys.argv[1]) if len(sys.argv) > 1 else 1, sys.argv[2:] or SMALL):
        print(json.dumps(verdict), flush=True)


if __name__ == "__main__":
    main()
