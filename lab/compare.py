"""Compare Ferrule's parser with vLLM's and SGLang's: `scripts/long compare [streams] [round-trips] [costs]`.

Each question has its own module. The raw counts go to .cache/results/, the tables to the terminal and to
docs/reference/results.md; a question that is not asked again keeps its last answer.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ferrule.bench.tables import Table, markdown, print_table
from lab import costs, round_trips, streams
from lab.environment import describe_environment, measured_environment
from lab.paths import CACHE
from lab.results_page import section, write_section
from lab.workers import oracles, others

RESULTS: Final = CACHE / "results"
_SECTION: Final = "compare"
_WIDTH_OF_A_LOG: Final = 160
_HEADING: Final = "Against vLLM and SGLang"
_COMMAND: Final = """```sh
scripts/setup-oracles --others
scripts/long compare
```"""
_ABOUT: Final = (
    "vLLM's and SGLang's parsers run from their own wheels, without the engine, as their chat servers call them. A "
    "stand-in tokenizer emits the special tokens of each format whole and all other text in small pieces; where a real "
    "vocabulary would split ordinary text is not modelled. The texts of the first question are written by hand, not by "
    "our renderer. Arguments that are not JSON count as wrong."
)

Advance = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Question:
    """How to ask, in how many steps, and how to show the answer."""

    steps: int
    ask: Callable[[ExitStack, Advance], dict[str, Any]]
    tables: Callable[[Mapping[str, Any]], list[Table]]


QUESTIONS: Final[Mapping[str, Question]] = {
    "streams": Question(
        streams.STEPS,
        lambda stack, advance: streams.measure(stack.enter_context(others()), advance),
        streams.tables,
    ),
    "round-trips": Question(
        round_trips.STEPS,
        lambda stack, advance: round_trips.measure(
            stack.enter_context(others()), stack.enter_context(oracles()), advance
        ),
        round_trips.tables,
    ),
    "costs": Question(
        costs.STEPS,
        lambda stack, advance: costs.measure(stack.enter_context(costs.timed_peers()), advance),
        costs.tables,
    ),
}


def main(arguments: Sequence[str] | None = None) -> None:
    reader = argparse.ArgumentParser(prog="scripts/long compare", description=(__doc__ or "").partition("\n")[0])
    reader.add_argument("question", nargs="*", help=f"any of {', '.join(QUESTIONS)} (default: all)")
    names: list[str] = reader.parse_args(arguments).question or list(QUESTIONS)
    for name in names:
        if name not in QUESTIONS:
            reader.error(f"no question is called {name!r}; there are {', '.join(QUESTIONS)}")
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH_OF_A_LOG)
    for name in names:
        answer = {"circumstances": measured_environment(), **_ask(name, console)}
        RESULTS.mkdir(parents=True, exist_ok=True)
        text = json.dumps(answer, indent=1, ensure_ascii=False)
        (RESULTS / f"{name}.json").write_text(text, encoding="utf-8")
        for table in QUESTIONS[name].tables(answer):
            print_table(table, console)
    write_section(_SECTION, page_section(load_answers()))


def load_answers() -> dict[str, dict[str, Any]]:
    """The last stored answer to each question."""
    paths = {name: RESULTS / f"{name}.json" for name in QUESTIONS}
    return {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items() if path.exists()}


def page_section(answers: Mapping[str, Mapping[str, Any]]) -> str:
    parts = [_COMMAND, _ABOUT]
    previous = ""
    for name, answer in answers.items():
        environment = describe_environment(answer["circumstances"])
        if environment != previous:
            parts.append(f"Measured {environment}")
            previous = environment
        parts.extend(markdown(table) for table in QUESTIONS[name].tables(answer))
    return section(_SECTION, _HEADING, parts)


def _ask(name: str, console: Console) -> dict[str, Any]:
    columns = (
        TextColumn(name),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with ExitStack() as stack, Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=QUESTIONS[name].steps)
        begun = False

        def advance(step: str) -> None:
            nonlocal begun
            progress.update(task, description=step, advance=1 if begun else 0)
            begun = True
            if not console.is_terminal:
                console.print(f"{name}: {step}", markup=False, highlight=False)

        answer = QUESTIONS[name].ask(stack, advance)
        progress.update(task, completed=QUESTIONS[name].steps, description="")
        return answer


if __name__ == "__main__":
    main()
