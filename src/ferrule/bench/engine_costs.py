"""What the guarantee costs on a real engine, beside the same engine run bare.

Bare is the engine's own completion of the same prompt, without a grammar, read token by token with nothing done to it.
Both ways take turns in one run, and what is told are ratios between neighbours, so that a machine which slows down
slows both.
"""

import statistics
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, replace
from typing import Final

from ferrule.bench.tables import Table
from ferrule.core.choice import ToolChoice
from ferrule.core.message import ChatMessage
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.engines.engine import Engine
from ferrule.engines.generator import Ended, Piece, TextGenerator, Writing
from ferrule.engines.text.engine import TextEngine
from ferrule.errors import FerruleError

_AIM: Final = 0.95
_FEWEST: Final = 10
_NOTE: Final = (
    ToolDefinition.build("take_note")
    .description("Writes a note down.")
    .parameter("title", {"type": "string", "maxLength": 60}, required=True)
    .parameter("text", {"type": "string", "minLength": 380, "maxLength": 400}, required=True)
    .done()
)
ASKED: Final = ToolCallRequest(
    messages=(ChatMessage.user("Take a note that tells the history of Paris in a few sentences."),),
    tools=(_NOTE,),
    tool_choice=ToolChoice.required(),
    parallel_tool_calls=False,
    max_tokens=220,
    temperature=0.0,
)


class TooShort(FerruleError):
    """An answer came in so few pieces that it has no rate."""

    code = "bench_answer_too_short"


@dataclass(frozen=True, slots=True)
class Run:
    """One answer: seconds to its first token, tokens a second after that, and our CPU seconds for each token."""

    first: float
    rate: float
    cpu: float
    tokens: int


class Tapped:
    """A backend that notes when its pieces come and what it was asked."""

    def __init__(self, inner: TextGenerator) -> None:
        self._inner = inner
        self.traits, self.facts, self.templated, self.close = inner.traits, inner.facts, inner.templated, inner.close
        self.count, self.cut, self.spelled = inner.count, inner.cut, inner.spelled
        self.times: list[float] = []
        self.asked: Writing | None = None

    async def write(self, writing: Writing) -> AsyncGenerator[Piece | Ended, None]:
        self.asked, self.times = writing, []
        async for piece in self._inner.write(writing):
            if isinstance(piece, Piece):
                self.times.append(time.monotonic())
            yield piece


async def constrained(engine: Engine, tap: Tapped) -> Run:
    started, cpu = time.monotonic(), time.process_time()
    await engine.generate_with_tools(ASKED)
    return _run(tap, started, time.process_time() - cpu)


async def bare(tap: Tapped, writing: Writing) -> Run:
    started, cpu = time.monotonic(), time.process_time()
    async for _ in tap.write(writing):
        pass
    return _run(tap, started, time.process_time() - cpu)


def _run(tap: Tapped, started: float, cpu: float) -> Run:
    count = len(tap.times)
    if count < _FEWEST:
        raise TooShort(f"an answer came in {count} pieces, which is too few for a rate")
    first, last = tap.times[0], tap.times[-1]
    return Run(first - started, (count - 1) / (last - first), cpu / count, count)


async def measured(opened: TextEngine, rounds: int, advance: Callable[[], None]) -> list[tuple[Run, Run]]:
    """Pairs of a constrained and a bare run. The first pair warms caches up and is left out."""
    pairs: list[tuple[Run, Run]] = []
    tap = Tapped(opened.generator)
    # What a token costs is asked here; skipping some of them is another question (scripts/bench-skip).
    engine = TextEngine(tap, replace(opened.options, skips=False))
    for number in range(rounds + 1):
        ours = await constrained(engine, tap)
        asked = tap.asked
        assert asked is not None
        # Left to itself the model would stop after a sentence, and a rate over ten tokens says little.
        endless = {"ignore_eos": True}
        theirs = await bare(tap, replace(asked, grammar=None, max_tokens=ours.tokens, extra=endless))
        if number:
            pairs.append((ours, theirs))
        advance()
    return pairs


def row_of(name: str, pairs: list[tuple[Run, Run]]) -> tuple[str, ...]:
    def middle(values: list[float]) -> float:
        return statistics.median(values)

    ratio = middle([ours.rate / theirs.rate for ours, theirs in pairs])
    return (
        name,
        f"{middle([theirs.rate for _, theirs in pairs]):.1f}",
        f"{middle([ours.rate for ours, _ in pairs]):.1f}",
        f"{ratio:.2f} ({'met' if ratio >= _AIM else 'missed'})",
        f"{1e6 * middle([ours.cpu for ours, _ in pairs]):.0f}",
        f"{1e6 * middle([theirs.cpu for _, theirs in pairs]):.0f}",
        f"{1000 * middle([ours.first - theirs.first for ours, theirs in pairs]):.0f}",
        f"{len(pairs)} of {pairs[0][0].tokens} tokens",
    )


def table_of(rows: list[tuple[str, ...]]) -> Table:
    return Table(
        "Tokens per second under the rule, and bare",
        f"One request at a time; the middle of the rounds. The aim is a ratio of {_AIM} or better. CPU is that of the "
        "process that Ferrule runs in, in microseconds a token; for `llama` the model itself runs in that process. "
        "*to first* is what is added to the time to the first token, in milliseconds: the template, the rule, and the "
        "engine's own reading of the grammar.",
        ("engine", "bare", "under the rule", "ratio", "CPU", "CPU, bare", "to first", "rounds"),
        rows,
    )
