"""Coding agents through `ferrule serve`: `scripts/long agents [RUNS]`; with `--faults`, on an engine that misbehaves.

Each agent edits a file and runs a command in a scratch repository, with its default tools, in a network namespace with
loopback only. The model is scripted and writes what a capable model would under the real grammar, or it is a real one.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from ferrule.bench.tables import Table, markdown, print_table
from lab.agents import fault_runs
from lab.agents.clients import AGENTS, AgentClient, run_client
from lab.agents.delivered_calls import call_faults, delivered, offered_tools
from lab.agents.task import DONE, make_repository, question, read_work
from lab.gateway_process import GatewayProcess, gateway_process
from lab.gateway_recorder import Exchange, Recorder, start_recorder
from lab.gateway_verdicts import api_of
from lab.paths import CACHE, ROOT
from lab.results_page import publish
from lab.servers import QWEN
from lab.versions import describe_versions

FAULTS: Final = "--faults"
SCRIPTED: Final = "scripted"
REAL: Final = "Qwen2.5-Coder-0.5B"
_ENTER: Final = ("unshare", "--map-root-user", "--net", "--")
_RAW: Final = CACHE / "agents" / "work.jsonl"
"""All runs, one line of JSON each, so that more can be added."""
_COMMAND: Final = "```sh\nscripts/setup-agents\nscripts/long agents {}\n```"
_ABOUT: Final = (
    "Each agent is the program from npm, unmodified, with its default tools, and allowed to edit and to run commands. "
    "It works in a git repository, with an empty home folder and loopback only. It is asked to change one word in a "
    "file, to run a command that copies the file, and to say that it is done. "
)
_TIMEOUT: Final = (
    "timeout: an answer had no event for as long as limits.first_seconds allows (300 s). A call is an event only when "
    "it is whole, so a model that writes one long call on a slow machine can meet this limit. Other work ran on the "
    "same two cores."
)


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine that agents run on. `module` is what runs the gateway, `seconds` what one run may take."""

    module: str
    engine: str
    seconds: float


ENGINES: Final[Mapping[str, Engine]] = {
    SCRIPTED: Engine("lab.agents.capable_engine", f"capable:{QWEN}", 300),
    REAL: Engine("ferrule", f"llama:{QWEN}?threads=1&slots=1&context=32768", 1800),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of an agent on an engine, read from the repository and from the traffic."""

    agent: str
    engine: str
    is_edited: bool
    is_run: bool
    is_shown: bool
    """Whether the command was run after the edit."""
    is_answered: bool
    code: int | None
    requests: int
    refused: Sequence[str]
    """The messages of the requests that the gateway refused."""
    errors: Sequence[str]
    """The codes of the answers that ended with an error."""
    calls: Sequence[str]
    """The names of the tools in the calls that the agent received."""
    invalid: Sequence[str]
    cut: int
    """The answers that the limit of tokens ended."""
    tools: int
    prompt: int
    """The length of the agent's longest request, in characters."""
    printed: str

    @property
    def is_done(self) -> bool:
        return self.is_edited and self.is_shown and self.is_answered and self.code == 0

    @property
    def reason(self) -> str:
        """Why the run is not done, as the traffic shows it."""
        if self.is_done:
            return "done"
        if self.refused or self.errors or self.invalid:
            return f"gateway: {[*self.refused, *self.errors, *self.invalid][0][:40]}"
        if not self.calls:
            return "model: cut off" if self.cut else "model: no call"
        return "model: other calls" if not (self.is_edited or self.is_run) else "model: stopped early"


@contextmanager
def _gateway(engine: Engine, model: str) -> Generator[GatewayProcess]:
    environment = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    arguments = ["--engine", f"{model}={engine.engine}"]
    with gateway_process(arguments, engine=None, environment=environment, module=engine.module) as gateway:
        yield gateway


def runs(agent: AgentClient, name: str, count: int, capture: Path | None = None) -> Generator[Run]:
    """Run an agent several times on one gateway. The first run's requests are kept in a folder of `capture`."""
    engine = ENGINES[name]
    model = agent.model or "local"
    with _gateway(engine, model) as gateway, start_recorder(gateway.url) as recorder:
        for number in range(count):
            yield _run(agent, name, model, recorder, engine.seconds, None if number else capture)


def runs_in_namespace(agent: str, count: int) -> list[Run]:
    """Run agents with this text in their label on the scripted model, in a network namespace of their own."""
    command = [*_ENTER, sys.executable, "-m", "lab.agents", str(count), "--agent", agent, "--json", "--inside"]
    lines = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, encoding="utf-8").stdout
    return [Run(**json.loads(line)) for line in lines.splitlines()]


def save_requests(exchanges: Sequence[Exchange], folder: Path) -> None:
    """Write requests as `scripts/long client-fixtures` reads them."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, one in enumerate(exchanges, 1):
        captured = {"method": one.method, "path": one.path, "body": one.request}
        (folder / f"work-{number:02}.json").write_text(json.dumps(captured), encoding="utf-8")


def _run(agent: AgentClient, engine: str, model: str, recorder: Recorder, seconds: float, capture: Path | None) -> Run:
    recorder.take()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        work = Path(folder, "work")
        work.mkdir()
        make_repository(work)
        ended = run_client(agent, recorder.url, model, question(work), Path(folder), seconds)
        done = read_work(work)
    exchanges = [one for one in recorder.take() if one.method == "POST" and api_of(one)]
    if capture is not None:
        save_requests(exchanges, capture / f"{'-'.join(agent.label.lower().replace(',', '').split())}-work")
    answered = [one for one in exchanges if one.status == 200]
    invalid = [fault for one in answered for fault in call_faults(one)]
    answers = [delivered(one) for one in answered if not any("not JSON" in fault for fault in call_faults(one))]
    return Run(
        agent=agent.label,
        engine=engine,
        is_edited=done.is_edited,
        is_run=done.is_run,
        is_shown=done.is_shown,
        is_answered=DONE in ended.output if engine == SCRIPTED else bool(ended.output.strip()),
        code=ended.code,
        requests=len(exchanges),
        refused=[_refusal(one) for one in exchanges if one.status != 200],
        errors=[one.error for one in answers if one.error],
        calls=[name for one in answers for name, _ in one.calls],
        invalid=invalid,
        cut=sum(one.finish == "length" for one in answers),
        tools=max((len([*offered_tools(one.request or {})]) for one in exchanges), default=0),
        prompt=max((len(json.dumps(one.request)) for one in exchanges), default=0),
        printed=(ended.output[-1500:] + ended.errors[-1500:]),
    )


def _refusal(exchange: Exchange) -> str:
    return f"{exchange.status}: {exchange.content.decode(errors='replace')[:300]}"


def saved_runs() -> list[Run]:
    if not _RAW.exists():
        return []
    return [Run(**json.loads(line)) for line in _RAW.read_text(encoding="utf-8").splitlines() if line]


def _save(run: Run) -> None:
    with _RAW.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(run)) + "\n")


def scripted_table(runs: Sequence[Run]) -> Table:
    about = _ABOUT + (
        "The model is scripted: it reads the prompt that Ferrule rendered, chooses by the names and schemas of the "
        "tools in it, and writes token by token what the mask of llguidance allows. *Done*: the file is right, the "
        "command was run after the edit, the agent printed the answer and exited with 0. *Refused*: requests that the "
        "gateway did not take. *Invalid*: calls that reached the agent and do not fit the tools of its own request."
    )
    rows = [
        (
            label,
            str(max(run.tools for run in mine)),
            f"{max(run.prompt for run in mine):,}",
            f"{sum(run.is_done for run in mine)} of {len(mine)}",
            *_traffic(mine),
        )
        for label, mine in _by_agent(runs, SCRIPTED)
    ]
    columns = ("agent", "tools", "largest request (characters)", "done", "requests", "refused", "calls", "invalid")
    return Table("A capable model, held by the grammar", about, columns, rows)


def real_table(runs: Sequence[Run]) -> Table:
    about = _ABOUT + (
        f"The model is {REAL}, in the gateway's process, one thread, a context of 32,768 tokens. *Edited* and *command "
        "run* are read from the files: the file is right, and the command has left its copy. *With a call*: runs in "
        "which the agent received a call. *Why not done*: what the traffic shows. *Gateway* would be a refused "
        "request, an error or an invalid call."
    )
    rows = [
        (
            label,
            str(len(mine)),
            str(sum(run.is_edited for run in mine)),
            str(sum(run.is_run for run in mine)),
            str(sum(bool(run.calls) for run in mine)),
            *_traffic(mine),
            ", ".join(f"{reason} {count}" for reason, count in Counter(run.reason for run in mine).items()),
        )
        for label, mine in _by_agent(runs, REAL)
    ]
    traffic = ("requests", "refused", "calls", "invalid")
    columns = ("agent", "runs", "edited", "command run", "with a call", *traffic, "why not done")
    has_timeout = any("timeout" in run.errors for run in runs if run.engine == REAL)
    return Table(f"On {REAL}", about, columns, rows, [_TIMEOUT] if has_timeout else [])


def _traffic(runs: Sequence[Run]) -> tuple[str, ...]:
    lists = ([run.refused, run.calls, run.invalid] for run in runs)
    refused, calls, invalid = (sum(map(len, column)) for column in zip(*lists, strict=True))
    return str(sum(run.requests for run in runs)), str(refused), str(calls), str(invalid)


def _by_agent(runs: Sequence[Run], engine: str) -> Generator[tuple[str, list[Run]]]:
    for agent in AGENTS:
        mine = [run for run in runs if (run.agent, run.engine) == (agent.label, engine)]
        if mine:
            yield agent.label, mine


def _publish(words: Sequence[str]) -> None:
    tables = [table for table in (scripted_table(saved_runs()), real_table(saved_runs())) if table.rows]
    for table in tables:
        print_table(table, Console())
    pins = dict.fromkeys((agent.pins / ".pins").read_text(encoding="utf-8").strip() for agent in AGENTS)
    command = _COMMAND.format(" ".join(words)).replace(" \n", "\n")
    publish("agent-work", "Coding agents at work", [command, describe_versions(*pins), *map(markdown, tables)])


def main() -> None:
    if sys.argv[1:2] == [FAULTS]:
        fault_runs.main(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(prog="scripts/long agents", description=__doc__)
    parser.add_argument("runs", type=int, nargs="?", default=20, help="how often each agent runs (20)")
    parser.add_argument("--agent", action="append", help="only agents whose label contains this text")
    parser.add_argument("--engine", choices=ENGINES, default=SCRIPTED, help=f"the engine ({SCRIPTED})")
    parser.add_argument("--print", action="store_true", help="keep the runs, but do not write the page")
    parser.add_argument(
        "--publish", action="store_true", help="run nothing, write the page from the runs that are kept"
    )
    parser.add_argument("--clear", action="store_true", help="forget the runs that are kept")
    parser.add_argument("--json", action="store_true", help="print the runs as JSON, and neither keep nor write them")
    parser.add_argument(
        "--capture", type=Path, metavar="FOLDER", help="write the requests of each agent's first run into FOLDER"
    )
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not (arguments.inside or arguments.publish):
        os.execvp(_ENTER[0], [*_ENTER, sys.executable, "-m", "lab.agents", *sys.argv[1:], "--inside"])
    if arguments.clear:
        _RAW.unlink(missing_ok=True)
    if not arguments.publish:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        chosen = [
            agent
            for agent in AGENTS
            if not arguments.agent or any(text.lower() in agent.label.lower() for text in arguments.agent)
        ]
        for agent in chosen:
            for run in runs(agent, arguments.engine, arguments.runs, arguments.capture):
                if arguments.json:
                    print(json.dumps(asdict(run)), flush=True)
                    continue
                _save(run)
                line = f"{run.agent:22} {run.reason:20} {run.requests} requests, calls {', '.join(run.calls)}"
                print(line, *run.refused[:1], *run.errors[:1], *run.invalid[:1], sep=" | ", flush=True)
    if not (arguments.print or arguments.json):
        _publish([word for word in sys.argv[1:] if not word.startswith("--")])


if __name__ == "__main__":
    main()
