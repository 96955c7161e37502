"""How much of its prompt an engine reads again in each turn of a coding agent: `scripts/long prompt-cache`.

The run is one of Claude Code, from its recorded requests: its tools, its message shapes, its own role "system" inside
the messages. The recording has filler where Claude Code has prose, so the prose is pages of this repository, as much as
`--tokens` asks for. In each turn the agent reads a file of this repository or runs a command in it; the results are
those. The replies are the script's, so that every run reads the same, and the model writes one token in each turn.

Each run is made by a client that only appends, and by clients that change something in each turn, as real ones do.
"""

import argparse
import copy
import json
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress

from ferrule.bench.tables import Table, markdown, print_table
from lab.client_fixtures import expand
from lab.environment import describe_environment, measured_environment
from lab.gateway_process import gateway_process
from lab.paths import ROOT
from lab.results_page import publish
from lab.servers import QWEN

_FIXTURE: Final = ROOT / "tests" / "clients" / "claude.json"
_COMMAND: Final = (
    "```sh\nscripts/setup-weights qwen2.5-coder-0.5b\nscripts/long prompt-cache --tokens {} --turns {}\n```"
)
_ABOUT: Final = (
    "A run of Claude Code in {} turns, from its recorded requests with {} of its 12 tools: it reads files of this "
    "repository "
    "and runs commands in it. Qwen2.5-Coder-0.5B in the gateway's process (llama.cpp), one thread, one slot. *Read*: "
    "the prompt tokens that the engine did not have in its cache, in all turns and in the first. *Fewer*: than by the "
    "client that writes the time into its system prompt. *Changed, says the trace* is what `/v1/traces` says of the "
    "last turn."
)
_CHARACTERS_PER_TOKEN: Final = 4.0
_TURN_TOKENS: Final = 400
"""What a turn adds at most: a call, and a result of the lines that are read."""
_LINES: Final = 6
_FIRST_TOOLS: Final = ("Read", "Bash")
"""What the run calls. The other tools come behind them, as many as the size has space for."""
_ANSWER_TOKENS: Final = 1
_HOUR: Final = 3600.0
_PATIENCE: Final = 300.0

Body = dict[str, Any]


def _append_only(body: Body, turn: int) -> None:
    """Claude Code as it should be: it sends what it sent, and what is new."""


def _write_the_time(body: Body, turn: int) -> None:
    body["system"][0]["text"] = f"It is 10:{turn:02}. {body['system'][0]['text']}"


def _reorder_tools(body: Body, turn: int) -> None:
    body["tools"] = [*body["tools"][turn % len(body["tools"]) :], *body["tools"][: turn % len(body["tools"])]]


def _clear_results(body: Body, turn: int) -> None:
    """Keep the two newest results, as context editing does."""
    results = [one for message in body["messages"] for one in _results(message)]
    for result in results[:-2]:
        result["content"] = "[Old tool result content cleared]"


CLIENTS: Final[Mapping[str, tuple[str, Callable[[Body, int], None]]]] = {
    "time": ("writes the time at the beginning of its system prompt", _write_the_time),
    "tools": ("sends its tools in another order", _reorder_tools),
    "results": ("clears all results but the two newest", _clear_results),
    "none": ("changes nothing", _append_only),
}


@dataclass(frozen=True, slots=True)
class Turn:
    """What the gateway's trace says of one turn."""

    prompt_tokens: int
    cached_tokens: int
    seconds: float
    changed_by: str
    changed: str

    @property
    def read_tokens(self) -> int:
        return self.prompt_tokens - self.cached_tokens


def agent_run(tokens: int, turns: int) -> list[Body]:
    """Return the bodies of a run of so many turns, whose first prompt has about so many tokens."""
    fixture = json.loads(_FIXTURE.read_text(encoding="utf-8"))
    # The longest recorded request has all the default tools.
    body: Body = max((one["body"] for one in expand(fixture)), key=lambda one: len(json.dumps(one.get("tools", ()))))
    body = {**copy.deepcopy(body), "messages": copy.deepcopy(body["messages"][:2]), "max_tokens": _ANSWER_TOKENS}
    _fill(body, int(tokens * _CHARACTERS_PER_TOKEN))
    bodies = [copy.deepcopy(body)]
    for number, (name, arguments, result) in zip(range(1, turns), _steps(), strict=False):
        id = f"toolu_{number:04}"
        body["messages"] += [
            {"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": name, "input": arguments}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": result}]},
        ]
        bodies.append(copy.deepcopy(body))
    return bodies


def run_client(tokens: int, turns: int, client: str, on_turn: Callable[[], object] = lambda: None) -> list[Turn]:
    """Send the run through `ferrule serve`, as one kind of client. Returns what the trace says of each turn."""
    _, change = CLIENTS[client]
    context = 2 * tokens + turns * _TURN_TOKENS
    engine = f"m=llama:{QWEN}?threads=1&slots=1&context={context}"
    with tempfile.TemporaryDirectory() as folder:
        ledger = str(Path(folder, "ledger.db"))
        with gateway_process(["--ledger", ledger], engine=engine) as gateway:
            for number, body in enumerate(agent_run(tokens, turns)):
                change(body, number)
                _send(f"{gateway.url}/v1/messages", {**body, "model": "m", "stream": False})
                on_turn()
            return _turns(gateway.url, turns)


def _turns(url: str, turns: int) -> list[Turn]:
    """Read the traces. They are written after the answers, so the last may not be there yet."""
    until = time.monotonic() + _PATIENCE
    while True:
        traces = _send(f"{url}/v1/traces")["data"]
        requests = [one for trace in traces for one in _send(f"{url}/v1/traces/{trace['id']}")["requests"]]
        # A request has an entry while it runs, without its figures.
        if sum(one["seconds"] is not None for one in requests) == turns:
            break
        if time.monotonic() > until:
            raise TimeoutError(f"the trace has {len(requests)} requests, some unfinished, of {turns}")
        time.sleep(0.2)
    requests.sort(key=lambda one: one["at"])
    prefixes = [one["prompt_prefix"] or {"changed_by": "", "changed": ""} for one in requests]
    return [
        Turn(one["prompt_tokens"], one["cached_tokens"], one["seconds"], prefix["changed_by"], prefix["changed"])
        for one, prefix in zip(requests, prefixes, strict=True)
    ]


def _fill(body: Body, characters: int) -> None:
    """Take as many tools as fit, and put prose where the recording has filler.

    Half of it goes into the system prompt, half into the tools' descriptions.
    """
    tools = sorted(body["tools"], key=lambda tool: tool["name"] not in _FIRST_TOOLS)
    size, kept = 0, list[Body]()
    for tool in tools:
        size += len(json.dumps(tool))
        if len(kept) < len(_FIRST_TOOLS) or size <= characters:
            kept.append(tool)
    body["tools"] = kept
    missing = max(0, characters - len(json.dumps([body["tools"], body["system"]])))
    pages = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs" / "explanation").glob("*.md"))]
    prose = "".join(page for page, _ in zip(cycle(pages), range(1 + missing // len("".join(pages)) * len(pages) + 99)))
    half = missing // 2
    body["system"][-1]["text"] = prose[:half] or body["system"][-1]["text"]
    share = half // len(body["tools"])
    for number, tool in enumerate(body["tools"]):
        start = half + number * share
        tool["description"] = prose[start : start + share] or tool.get("description", "")


def _steps() -> "Sequence[tuple[str, Body, str]]":
    """Calls of an agent with their real results: lines of a file as Claude Code numbers them, or a command's output."""
    steps: list[tuple[str, Body, str]] = []
    for path in sorted((ROOT / "src" / "ferrule" / "core").glob("*.py")):
        if path.name.startswith("_"):
            continue
        name = str(path.relative_to(ROOT))
        lines = path.read_text(encoding="utf-8").splitlines()[:_LINES]
        numbered = "\n".join(f"{number:6}\u2192{line}" for number, line in enumerate(lines, 1))
        steps.append(("Read", {"file_path": name, "limit": _LINES}, numbered))
        command = ["wc", "-l", name]
        done = subprocess.run(command, check=True, cwd=ROOT, capture_output=True, encoding="utf-8")
        steps.append(("Bash", {"command": " ".join(command), "description": "Count the lines"}, done.stdout))
    return steps


def _results(message: Body) -> list[Body]:
    content: str | list[Body] = message["content"]
    return [] if isinstance(content, str) else [one for one in content if one["type"] == "tool_result"]


def _send(url: str, body: Body | None = None) -> Body:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=_HOUR) as answer:
        return json.loads(answer.read())


def _table(results: Mapping[str, Sequence[Turn]]) -> Table:
    most = sum(turn.read_tokens for turn in results["time"]) if "time" in results else 0
    rows: list[tuple[str, ...]] = []
    for client, turns in results.items():
        read = sum(turn.read_tokens for turn in turns)
        last = turns[-1]
        rows.append(
            (
                CLIENTS[client][0],
                f"{sum(turn.prompt_tokens for turn in turns):,}",
                f"{read:,}",
                f"{turns[0].read_tokens:,}",
                f"{1 - read / most:.0%}" if most and client != "time" else "",
                f"{sum(turn.seconds for turn in turns):.0f}",
                f"{last.changed_by}: {last.changed}" if last.changed_by else "nothing",
            )
        )
    heads = ("The client", "Prompt tokens", "Read", "In the first turn", "Fewer", "Seconds", "Changed, says the trace")
    return Table("Prompt tokens that are read again", "", heads, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=11_000, help="of the first prompt, about (11000)")
    parser.add_argument("--turns", type=int, default=20, help="of the run (20)")
    parser.add_argument("--client", action="append", choices=[*CLIENTS], help="only this one; may be repeated")
    parser.add_argument("--print", action="store_true", dest="only_prints", help="do not write the results page")
    options = parser.parse_args()
    clients: list[str] = options.client or [*CLIENTS]
    results: dict[str, list[Turn]] = {}
    with Progress() as progress:
        for client in clients:
            task = progress.add_task(client, total=options.turns)
            results[client] = run_client(options.tokens, options.turns, client, partial(progress.advance, task))
            for turn in results[client]:
                progress.console.print(client, turn)
    table = _table(results)
    print_table(table, Console())
    if not options.only_prints:
        about = _ABOUT.format(options.turns, len(agent_run(options.tokens, 1)[0]["tools"]))
        line = describe_environment(measured_environment())
        command = _COMMAND.format(options.tokens, options.turns)
        publish("prompt-cache", "Prompt tokens that are read again", [command, about, line, markdown(table)])


if __name__ == "__main__":
    main()
