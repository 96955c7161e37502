"""Measure what the grammar constraint costs on an engine, compared with the same engine without it.

The baseline ("bare") is the engine's own completion of the same prompt, without a grammar, read token by token and not
processed. Both alternate in one run, and the results are ratios of neighbouring measurements, so that a machine that
slows down affects both.
"""

import statistics
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, replace
from typing import Final

from ferrule.bench.tables import Table
from ferrule.core.message import ChatMessage
from ferrule.core.request import ToolCallRequest, ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.engines.engine import Engine
from ferrule.engines.generator import CompletionEnd, CompletionRequest, Piece, TextGenerator
from ferrule.engines.text.engine import TextEngine
from ferrule.errors import FerruleError

_TARGET_RATIO: Final = 0.95
_MIN_PIECES: Final = 10
_NOTE: Final = (
    ToolDefinition.build("take_note")
    .description("Writes a note down.")
    .parameter("title", {"type": "string", "maxLength": 60}, required=True)
    .parameter("text", {"type": "string", "minLength": 380, "maxLength": 400}, required=True)
    .done()
)
REQUEST: Final = ToolCallRequest(
    messages=(ChatMessage.user("Take a note that tells the history of Paris in a few sentences."),),
    tools=(_NOTE,),
    tool_choice=ToolChoice.required(),
    parallel_tool_calls=False,
    max_tokens=220,
    temperature=0.0,
)


class AnswerTooShortError(FerruleError):
    """An answer has too few pieces to compute a rate."""

    code = "bench_answer_too_short"


@dataclass(frozen=True, slots=True)
class Run:
    """One answer: seconds to the first token, tokens per second after that, and our CPU seconds per token."""

    first: float
    rate: float
    cpu: float
    tokens: int


class RecordingGenerator:
    """Wraps a text generator; records when its pieces arrive and what was requested."""

    def __init__(self, inner: TextGenerator) -> None:
        self._inner = inner
        self.traits, self.facts, self.close = inner.traits, inner.facts, inner.close
        self.apply_template, self.count_tokens = inner.apply_template, inner.count_tokens
        self.tokenize, self.detokenize = inner.tokenize, inner.detokenize
        self.times: list[float] = []
        self.last_request: CompletionRequest | None = None

    async def generate(self, request: CompletionRequest) -> AsyncGenerator[Piece | CompletionEnd, None]:
        self.last_request, self.times = request, []
        async for piece in self._inner.generate(request):
            if isinstance(piece, Piece):
                self.times.append(time.monotonic())
            yield piece


async def run_constrained(engine: Engine, recorder: RecordingGenerator) -> Run:
    started, cpu = time.monotonic(), time.process_time()
    await engine.generate_with_tools(REQUEST)
    return _measure_run(recorder, started, time.process_time() - cpu)


async def run_bare(recorder: RecordingGenerator, writing: CompletionRequest) -> Run:
    started, cpu = time.monotonic(), time.process_time()
    async for _ in recorder.generate(writing):
        pass
    return _measure_run(recorder, started, time.process_time() - cpu)


def _measure_run(recorder: RecordingGenerator, started: float, cpu: float) -> Run:
    count = len(recorder.times)
    if count < _MIN_PIECES:
        raise AnswerTooShortError(f"an answer has {count} pieces, which is too few to compute a rate")
    first, last = recorder.times[0], recorder.times[-1]
    return Run(first - started, (count - 1) / (last - first), cpu / count, count)


async def measure(base_engine: TextEngine, rounds: int, advance: Callable[[], None]) -> list[tuple[Run, Run]]:
    """Measure pairs of a constrained and a bare run. The first pair warms up caches and is discarded."""
    pairs: list[tuple[Run, Run]] = []
    recorder = RecordingGenerator(base_engine.generator)
    # This measures the cost of a token. Skipping tokens is measured separately (scripts/bench-skip).
    engine = TextEngine(recorder, replace(base_engine.options, skips=False))
    for number in range(rounds + 1):
        ours = await run_constrained(engine, recorder)
        writing = recorder.last_request
        assert writing is not None
        # Unconstrained, the model would stop after a sentence, and a rate over ten tokens says little.
        endless = {"ignore_eos": True}
        theirs = await run_bare(recorder, replace(writing, grammar=None, max_tokens=ours.tokens, extra=endless))
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
        f"{ratio:.2f} ({'met' if ratio >= _TARGET_RATIO else 'missed'})",
        f"{1e6 * middle([ours.cpu for ours, _ in pairs]):.0f}",
        f"{1e6 * middle([theirs.cpu for _, theirs in pairs]):.0f}",
        f"{1000 * middle([ours.first - theirs.first for ours, theirs in pairs]):.0f}",
        f"{len(pairs)} of {pairs[0][0].tokens} tokens",
    )


def table_of(rows: list[tuple[str, ...]]) -> Table:
    return Table(
        "Tokens per second, constrained and bare",
        f"One request at a time; median of the rounds. The target is a ratio of {_TARGET_RATIO} or better. CPU is that "
        "of Ferrule's process, in microseconds per token; for `llama` the model itself runs in that process. "
        "*to first* is the time added before the first token, in milliseconds: the chat template, the rule, and the "
        "engine's compilation of the grammar.",
        ("engine", "bare", "constrained", "ratio", "CPU", "CPU, bare", "to first", "rounds"),
        rows,
    )
