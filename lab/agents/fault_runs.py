"""Run each agent on each fault: `scripts/long agents --faults`. Prints how the agents end, and writes the page.

Three ways: the agent on the faulty engine itself, through a gateway of an earlier commit, and through this one. All of
it runs in a network namespace with loopback only.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from rich.console import Console

from ferrule.bench.tables import Table, markdown, print_table
from lab.agents.clients import CLIENTS, AgentClient, run_client
from lab.agents.faulty_upstream import FAULTS, NO_FAULT, RIGHT, TEXT, WRONG, FaultyUpstream, faulty_upstream
from lab.gateway_process import gateway_process
from lab.gateway_recorder import start_recorder
from lab.paths import CACHE, ROOT
from lab.results_page import publish
from lab.versions import describe_versions

BEFORE: Final = "d3e0294"
"""The last commit that began a streamed call before the call was complete."""
_ENTER: Final = ("unshare", "--map-root-user", "--net", "--")
_QUESTION: Final = "Make the file right.txt with touch, then say that the work is done."
_WAYS: Final = ("without Ferrule", "before", "after")
_COMMAND: Final = "```sh\nscripts/setup-agents\nscripts/long agents --faults\n```"
_RAW: Final = CACHE / "agents" / "runs.json"
"""All runs, the last of each kind, so that some can be repeated."""


@dataclass(frozen=True, slots=True)
class Run:
    """One agent on one fault. `requests` counts the agent's requests, `asked` those that the model answered."""

    client: str
    fault: str
    way: str
    ran_wrong: bool
    """Whether the command of the refused call was run."""
    ran_right: bool
    is_answered: bool
    code: int | None
    requests: int
    asked: int
    printed: str

    @property
    def is_recovered(self) -> bool:
        return not self.ran_wrong and self.ran_right and self.is_answered and self.code == 0

    @property
    def outcome(self) -> str:
        if self.ran_wrong:
            return "RUNS IT"
        if self.is_recovered:
            return "recovers"
        if self.code is None:
            return "hangs"
        if self.code:
            return f"fails ({self.code})"
        return "stops" if self.printed.strip() else "stops silently"


def is_worse(run: Run, without: Run) -> bool:
    """Whether the agent ends worse than on the engine itself."""
    return run.ran_wrong or (without.is_recovered and not run.is_recovered)


def _model(client: AgentClient, fault: str) -> str:
    """The name of a run's model: it tells the server which run a request belongs to."""
    return f"{client.name}--{fault}".lower().replace(" ", "-")


def _fault_of(model: str) -> str:
    return next(fault for fault in FAULTS if model.endswith("--" + fault.lower().replace(" ", "-")))


@contextmanager
def _gateway(way: str, upstream: FaultyUpstream, pairs: Iterable[tuple[AgentClient, str]]) -> Generator[str]:
    """The URL that the agents get: the engine's own, or that of a gateway."""
    if way == "without Ferrule":
        yield upstream.url
        return
    engines = [f"--engine={model}=openai:{model}?url={upstream.url}/v1" for model in (_model(*pair) for pair in pairs)]
    with _source(way) as source:
        environment = {"PYTHONPATH": str(source), "OPENAI_API_KEY": "none"}
        with gateway_process(engines, engine=None, environment=environment) as gateway:
            yield gateway.url


@contextmanager
def _source(way: str) -> Generator[Path]:
    """The folder with the package: this checkout's, or that of the earlier commit."""
    if way == "after":
        yield ROOT / "src"
        return
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", BEFORE, "src"], check=True, cwd=ROOT, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], check=True, input=archive)
        yield Path(folder, "src")


def _run(way: str, url: str, upstream: FaultyUpstream, client: AgentClient, fault: str) -> Run:
    model = _model(client, fault)
    with tempfile.TemporaryDirectory() as folder, start_recorder(url) as recorder:
        ended = run_client(client, recorder.url, model, _QUESTION, Path(folder))
        posted = [cast("dict[str, Any]", one.request or {}) for one in recorder.take() if one.method == "POST"]
        sent = [request for request in posted if request.get("tools")]
        work = Path(folder, "work")
        return Run(
            client=client.name,
            fault=fault,
            way=way,
            ran_wrong=(work / WRONG).exists(),
            ran_right=(work / RIGHT).exists(),
            is_answered=TEXT in ended.output,
            code=ended.code,
            requests=len(sent),
            asked=upstream.count(model),
            printed=(ended.output or ended.errors)[-2000:],
        )


def _inside(pairs: Sequence[tuple[AgentClient, str]], ways: Sequence[str], workers: int) -> Generator[Run]:
    for way in ways:
        with (
            faulty_upstream(_fault_of) as upstream,
            _gateway(way, upstream, pairs) as url,
            ThreadPoolExecutor(workers) as pool,
        ):
            clients, faults = zip(*pairs, strict=True)
            yield from pool.map(partial(_run, way, url, upstream), clients, faults)


Runs = Mapping[tuple[str, str, str], Run]
"""Runs by agent, fault and way."""


def _saved() -> dict[tuple[str, str, str], Run]:
    runs = [Run(**fields) for fields in json.loads(_RAW.read_text(encoding="utf-8"))] if _RAW.exists() else []
    return {(run.client, run.fault, run.way): run for run in runs}


def table_of(runs: Runs) -> Table:
    """Agents by faults, with all ways in each cell."""
    faults = [fault for fault in FAULTS if any(run.fault == fault for run in runs.values())]
    rows = [
        (
            client.name,
            *[_cell([run for way in _WAYS if (run := runs.get((client.name, fault, way)))]) for fault in faults],
        )
        for client in CLIENTS
    ]
    return Table(
        "How agents end on an engine that makes a mistake",
        "The model's first answer has a fault; the next one is correct (*twice*: the one after that). Each cell: "
        f"without Ferrule / through the gateway before (commit {BEFORE}) / after. *Recovers*: the correct call was "
        "run, the agent printed the model's answer and exited with 0. *RUNS IT*: the command of the call that must "
        "not run was run. *Stops*: exit code 0 without that answer; *fails*: another exit code. A model that makes its "
        "mistake three times is beyond the default of two repairs: the answer is then a text that says so, and an "
        "agent stops at a text.",
        ("agent", *faults),
        rows,
        _notes(runs),
        text_columns=1 + len(faults),
    )


def _cell(runs: Sequence[Run]) -> str:
    return " / ".join(run.outcome for run in runs)


def _notes(runs: Runs) -> list[str]:
    notes: list[str] = []
    for way in _WAYS:
        of_way = [run for run in runs.values() if run.way == way and run.fault != NO_FAULT]
        direct = [runs.get((run.client, run.fault, _WAYS[0])) for run in of_way]
        worse = sum(is_worse(run, without) for run, without in zip(of_way, direct, strict=True) if without)
        ends = "" if way == _WAYS[0] else f", ends worse than without Ferrule: {worse}"
        recovered, ran = sum(run.is_recovered for run in of_way), sum(run.ran_wrong for run in of_way)
        notes.append(
            f"{way}: {len(of_way)} runs with a fault, recovered: {recovered}, ran the refused call: {ran}{ends}"
        )
    return notes


def main(words: Sequence[str]) -> None:
    """`words` are the arguments after `--faults`."""
    parser = argparse.ArgumentParser(prog="scripts/long agents --faults", description=__doc__)
    parser.add_argument("--client", action="append", help="only these agents")
    parser.add_argument("--fault", action="append", help="only these faults")
    parser.add_argument("--way", action="append", choices=_WAYS, help="only these ways")
    parser.add_argument("--workers", type=int, default=2, help="how many agents run at once")
    parser.add_argument("--saved", action="store_true", help="run nothing, use the last run of each kind")
    parser.add_argument("--print", action="store_true", help="print only, do not write the page")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(words)
    if not arguments.inside:
        os.execvp(_ENTER[0], [*_ENTER, sys.executable, "-m", "lab.agents", "--faults", *words, "--inside"])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    chosen = [client for client in CLIENTS if not arguments.client or client.name in arguments.client]
    pairs = [
        (client, fault) for client in chosen for fault in FAULTS if not arguments.fault or fault in arguments.fault
    ]
    saved = _saved()
    for run in _inside(pairs, arguments.way or _WAYS, arguments.workers) if not arguments.saved else ():
        print(
            f"{run.way:16} {run.client:18} {run.fault:17} {run.outcome:15} {run.requests} requests, {run.asked} answers"
        )
        sys.stdout.flush()
        saved[run.client, run.fault, run.way] = run
        _RAW.write_text(json.dumps([asdict(one) for one in saved.values()], indent=1), encoding="utf-8")
    table = table_of(saved)
    print_table(table, Console())
    if not arguments.print and len(saved) == len(CLIENTS) * len(FAULTS) * len(_WAYS):
        pins = [(client.pins / ".pins").read_text(encoding="utf-8").strip() for client in CLIENTS]
        publish("agents", "Agents on an engine that misbehaves", [_COMMAND, describe_versions(*pins), markdown(table)])
