"""Check that real SDKs read no call in a stream that the gateway did not hand on: `scripts/long sdk-streams`.

`ferrule serve` runs as a process of its own, first on an upstream that misbehaves, then on real models with budgets
that end inside the call.
"""

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress, TaskID

from ferrule.bench.tables import Table, markdown, print_table
from lab.environment import describe_environment, measured_environment
from lab.gateway_process import SMOL, gateway_url
from lab.results_page import publish
from lab.saved_parts import SavedParts
from lab.sdk_streams.faults import ARGUMENTS, TOOL
from lab.sdk_streams.readers import READERS, Ask, Reader, start_readers
from lab.sdk_streams.upstream import PIECES, faulty_upstream
from lab.servers import QWEN

_STEP: Final = 10
_ENOUGH: Final = 4096
_COMMAND: Final = "```sh\nscripts/setup-clients --npm\nscripts/setup-weights\nscripts/long sdk-streams\n```"
REFUSED: Final = ("unfit", "not offered", "not json")
MODELS: Final[Mapping[str, str]] = {
    "SmolLM2-135M": f"{SMOL}&slots=1&format=hermes",
    "Qwen2.5-Coder-0.5B": f"llama:{QWEN}?threads=1&slots=1",
}
KINDS: Final = ("cut", "broken", "refused", "whole")
_QUESTION: Final = "Pay 250 to alice@example.com for the long invoice about flowers and trees."
_MOST_TOKENS: Final = 81
_ENOUGH_FOR_A_CALL: Final = 400
_SCRIPTED: Final = (
    f"A call of {len(PIECES)} tokens that ends with the reason `length` (*cut*), or whose connection is closed "
    f"(*broken*), after every {_STEP}th token; arguments that do not fit, a tool that was not offered, arguments that "
    "are not JSON (*refused*); and a good call (*whole*), which every SDK must read. *Misread*: streams in which the "
    "SDK shows a call as valid that is not the good one, or shows any call of a fault. Without Ferrule, the same SDK "
    "reads the same upstream itself, where it speaks its API."
)
_REAL: Final = (
    "Real models, a call required, temperature 0, `max_tokens` from 1 in steps of ten tokens. *Whole*: streams with "
    "the call that the model makes when it has enough tokens. *None*: no call. *Misread*: any other call."
)


def faults() -> Iterator[tuple[str, str]]:
    """Each fault as its kind and the question that asks for it."""
    for count in range(0, len(PIECES), _STEP):
        yield "cut", f"cut {count}"
        yield "broken", f"broken {count}"
    for fault in REFUSED:
        yield "refused", fault
    yield "whole", "whole"


def read_faults(ask: Ask, url: str, advance: Callable[[], None]) -> dict[str, Any]:
    """The number of streams by kind of fault, and those that were misread."""
    streams: Counter[str] = Counter()
    misread: list[str] = []
    for kind, question in faults():
        answer = ask({"url": url, "question": question, "choice": "auto", "max_tokens": _ENOUGH})
        streams[kind] += 1
        if answer["calls"] != ([[TOOL, ARGUMENTS]] if kind == "whole" else []):
            shown = json.dumps(answer["calls"])[:120]
            misread.append(f"{question}: {shown} {answer.get('raised') or answer.get('error') or ''}".strip())
        advance()
    return {**streams, "misread": misread}


async def scripted_table(readers: Mapping[str, Ask], saved: SavedParts, progress: Progress) -> Table:
    rows: list[tuple[str, ...]] = []
    notes: list[str] = []
    sums: Counter[str] = Counter()
    total = len(list(faults()))
    with faulty_upstream() as upstream, gateway_url(engine=f"openai:m?url={upstream}&key=none") as gateway:
        for reader in READERS:
            ask = readers[reader.name]
            task = progress.add_task(reader.name, total=total * (2 if reader.is_chat else 1))

            async def measure(ask: Ask = ask, reader: Reader = reader, task: TaskID = task) -> dict[str, Any]:
                def advance() -> None:
                    progress.advance(task)

                ours = read_faults(ask, gateway, advance)
                alone = read_faults(ask, upstream.removesuffix("/v1"), advance) if reader.is_chat else {}
                return {"ours": ours, "alone": alone}

            result = await saved.part(f"scripted {reader.name}", measure)
            counts = {kind: int(result["ours"][kind]) for kind in KINDS} | {"misread": len(result["ours"]["misread"])}
            sums.update(counts)
            bare = f"{len(result['alone']['misread'])} of {total}" if result["alone"] else "-"
            rows.append((reader.name, *map(str, counts.values()), bare))
            notes += [f"{reader.name}, {line}" for line in result["ours"]["misread"]]
    rows.append(("total", *map(str, sums.values()), ""))
    columns = ("SDK", *KINDS, "misread", "misread without Ferrule")
    streams = sum(sums[kind] for kind in KINDS)
    return Table(f"{streams} streams of a misbehaving upstream", _SCRIPTED, columns, rows, notes)


async def real_table(models: Sequence[str], readers: Mapping[str, Ask], saved: SavedParts, progress: Progress) -> Table:
    rows: list[tuple[str, ...]] = []
    notes: list[str] = []
    budgets = range(1, _MOST_TOKENS + 1, _STEP)
    for model in models:
        with gateway_url(engine=MODELS[model]) as url:
            # The whole call depends on the prompt and not on the API: it is asked for once.
            whole = _ask(readers["openai, chat chunks"], url, _ENOUGH_FOR_A_CALL)
            for reader in READERS:
                task = progress.add_task(f"{model}, {reader.name}", total=len(budgets))

                async def measure(url: str = url, ask: Ask = readers[reader.name], task: TaskID = task) -> list[Any]:
                    answers: list[Any] = []
                    for budget in budgets:
                        answers.append(_ask(ask, url, budget))
                        progress.advance(task)
                    return answers

                answers = await saved.part(f"{model} {reader.name}", measure)
                tally = {"whole": 0, "none": 0, "misread": 0}
                for budget, calls in zip(budgets, answers, strict=True):
                    result = "none" if not calls else "whole" if calls == whole else "misread"
                    tally[result] += 1
                    if result == "misread":
                        notes.append(f"{model}, {reader.name}, {budget} tokens: {json.dumps(calls)[:200]}")
                rows.append((f"{model}: {reader.name}", *map(str, tally.values())))
    streams = len(budgets) * len(rows)
    return Table(f"{streams} streams of real models", _REAL, ("SDK", "whole", "none", "misread"), rows, notes)


def _ask(ask: Ask, url: str, budget: int) -> Any:
    return ask({"url": url, "question": _QUESTION, "choice": "required", "max_tokens": budget})["calls"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long sdk-streams", description=__doc__)
    parser.add_argument("--model", action="append", choices=(*MODELS, "none"), help="only these real models")
    parser.add_argument("--print", action="store_true", help="only print the results, and keep them for another run")
    arguments = parser.parse_args()
    console = Console()
    models = [model for model in arguments.model or MODELS if model != "none"]
    saved = SavedParts("sdk-streams")
    with Progress(console=console) as progress, start_readers() as readers:
        tables = [asyncio.run(scripted_table(readers, saved, progress))]
        print_table(tables[0], console)
        if models:
            tables.append(asyncio.run(real_table(models, readers, saved, progress)))
            print_table(tables[1], console)
    if not arguments.print:
        parts = [_COMMAND, describe_environment(measured_environment()), *map(markdown, tables)]
        publish("sdk-streams", "Streams that SDKs cannot misread", parts)
        saved.clear()
    sys.exit(any(table.notes for table in tables))


if __name__ == "__main__":
    main()
