"""Compare the tokens of an answer with and without skipping, and measure where the time of both goes.

`scripts/bench-skip-tokens`. llama.cpp in this process, on one thread, with BFCL's questions at temperature 0 and a call
required. Each question goes through both modes before the next one, in an order that alternates, so only ratios within
a run mean anything. The prompt is evaluated before each mode, so no time in the results belongs to it. An interrupted
run resumes.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from rich.console import Console
from rich.progress import Progress, TimeRemainingColumn

from ferrule.bench.bfcl_requests import Question, load_questions
from ferrule.bench.tables import Table, markdown, print_table
from ferrule.core.request import ToolChoice
from ferrule.engines.checkpoint.gguf import read_metadata, vocabulary_of
from ferrule.engines.llama import LlamaGenerator
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.rules.matcher import compile_matcher
from ferrule.rules.vocabulary import Vocabulary
from lab import servers
from lab.environment import describe_environment, measured_environment
from lab.results_page import publish
from lab.saved_parts import SavedParts
from lab.skip_costs import reply_text

_MODELS: Final = {"SmolLM2-135M": servers.MODEL, "Qwen2.5-Coder-0.5B": servers.QWEN}
_MODES: Final = ("whole", "skip")
_MAX_TOKENS: Final = 256
_GRAMMAR_HEAD: Final = "%llguidance {}\n"


@dataclass(frozen=True, slots=True)
class RequestTimes:
    """One request to llama.cpp: the tokens that it evaluated and generated, and its own measurement of both."""

    prompt: Sequence[int]
    """The prompt's token ids; empty if it was sent as text."""
    generated: Sequence[int]
    evaluated: int
    evaluation: float
    generation: float
    grammar: str


@dataclass(frozen=True, slots=True)
class TokenRow:
    """One question in one mode, in seconds. `tokens` are those of the answer; with skipping, up to the last hole's end.

    `masks` and `compilation` are measured by computing the same masks again, from the same grammars.
    """

    model: str
    mode: str
    question: str
    seconds: float
    output: str
    requests: int
    generated: int
    appended: int
    evaluated: int
    evaluation: float
    generation: float
    compilation: float
    masks: float
    tokens: Sequence[int]
    texts: Sequence[str] = ()


@dataclass(slots=True)
class _RecordingServer:
    """llama.cpp's server, with a record of each request."""

    server: Any
    requests: list[RequestTimes] = field(default_factory=list[RequestTimes])

    def __getattr__(self, name: str) -> Any:
        return getattr(self.server, name)

    def handle_completions(self, body: dict[str, Any], on_chunk: Callable[[dict[str, Any]], bool]) -> None:
        generated: list[int] = []
        times: dict[str, Any] = {}

        def on_recorded_chunk(chunk: dict[str, Any]) -> bool:
            # A report of the prompt's progress has a token that nobody generated.
            if "prompt_progress" not in chunk:
                generated.extend(chunk.get("__verbose", {}).get("tokens", ()))
            # A request that a stop ended reports its times twice.
            times.update(chunk.get("timings", {}))
            return on_chunk(chunk)

        self.server.handle_completions({**body, "verbose": True}, on_recorded_chunk)
        self.requests.append(
            RequestTimes(
                () if isinstance(body["prompt"], str) else cast("list[int]", body["prompt"]),
                tuple(generated),
                times["prompt_n"],
                times["prompt_ms"] / 1000,
                times["predicted_ms"] / 1000,
                body.get("grammar", "").removeprefix(_GRAMMAR_HEAD),
            )
        )


class RecordingGenerator(LlamaGenerator):
    """A model in this process with one slot, and a record of each request."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, threads=1, slots=1, context=4096)
        self.recorder = _RecordingServer(self._server)
        self._server = self.recorder


@dataclass(frozen=True, slots=True)
class Comparison:
    """One model, asked in both modes."""

    model: str
    generator: RecordingGenerator
    engines: Mapping[str, TextEngine]
    vocabulary: Vocabulary

    async def rows(self, question: Question, modes: Sequence[str]) -> list[TokenRow]:
        return [await self._row(question, mode) for mode in modes]

    async def _row(self, question: Question, mode: str) -> TokenRow:
        # Afterwards the cache has the prompt, and no longer the answer of the other mode, which begins with the same
        # tokens: reading them from the cache would make skipping look faster than it is.
        await self.engines["whole"].generate_with_tools(question.request(ToolChoice.required(), 1))
        self.generator.recorder.requests.clear()
        started = time.monotonic()
        reply = await self.engines[mode].generate_with_tools(question.request(ToolChoice.required(), _MAX_TOKENS))
        seconds = time.monotonic() - started
        requests = tuple(self.generator.recorder.requests)
        compilation, masks = self._matcher_times(requests)
        # Only a request with skipping sends token ids. The tokens that are not the answer's are cut off below.
        tokens = [*requests[-1].prompt, *requests[-1].generated]
        if mode == "skip":
            tokens = tokens[reply.usage.prompt_tokens if reply.usage else 0 :]
        return TokenRow(
            self.model,
            mode,
            question.id,
            seconds,
            reply_text(reply),
            len(requests),
            sum(len(request.generated) for request in requests),
            max((call.receipt.skipped for call in reply.calls if call.receipt), default=0),
            sum(request.evaluated for request in requests),
            sum(request.evaluation for request in requests),
            sum(request.generation for request in requests),
            compilation,
            masks,
            tokens,
            [await self.generator.detokenize((token,)) or "" for token in tokens],
        )

    def _matcher_times(self, requests: Sequence[RequestTimes]) -> tuple[float, float]:
        """The time to compile the grammars of the requests, and to compute the mask of each generated token."""
        compilation = masks = 0.0
        for request in requests:
            started = time.monotonic()
            matcher = compile_matcher(self.vocabulary, request.grammar)
            compiled = time.monotonic()
            for token in request.generated:
                matcher.allowed_tokens()
                if not matcher.take(token):
                    break
            compilation += compiled - started
            masks += time.monotonic() - compiled
        return compilation, masks


async def comparison_of(model: str, generator: RecordingGenerator) -> Comparison:
    options = {mode: TextOptions(format="hermes", skips=mode == "skip") for mode in _MODES}
    engines = {mode: TextEngine(generator, options[mode]) for mode in _MODES}
    for engine in engines.values():
        # The first request of an engine probes the model; that must not be part of a measurement.
        await engine.format()
    vocabulary = vocabulary_of(read_metadata(_MODELS[model]))
    # The first matcher of a vocabulary takes seconds, and no other does.
    compile_matcher(vocabulary, 'start: "a" /[a-z]*/').allowed_tokens()
    return Comparison(model, generator, engines, vocabulary)


async def measure(model: str, count: int, saved: SavedParts, advance: Callable[[], None]) -> list[TokenRow]:
    generator = RecordingGenerator(_MODELS[model])
    comparison = await comparison_of(model, generator)
    rows: list[TokenRow] = []
    for number, question in enumerate(load_questions(count)):
        modes = _MODES if number % 2 == 0 else _MODES[::-1]

        async def measure_question(question: Question = question, modes: Sequence[str] = modes) -> list[Any]:
            return [asdict(row) for row in await comparison.rows(question, modes)]

        name = f"{model}, {_MAX_TOKENS} tokens: {question.id}"
        rows += [TokenRow(**row) for row in await saved.part(name, measure_question)]
        advance()
    await generator.close()
    return rows


def _by_mode(rows: Sequence[TokenRow], model: str) -> tuple[list[TokenRow], list[TokenRow]]:
    """The rows without and with skipping, in the order of the questions."""
    whole, skip = (
        sorted((row for row in rows if (row.model, row.mode) == (model, mode)), key=lambda row: row.question)
        for mode in _MODES
    )
    return whole, skip


def words_table(rows: Sequence[TokenRow]) -> Table:
    lines: list[tuple[str, ...]] = []
    notes: list[str] = []
    for model in dict.fromkeys(row.model for row in rows):
        pairs = list(zip(*_by_mode(rows, model), strict=True))
        same = [one.output == two.output for one, two in pairs]
        differences = [(one, at) for one, two in pairs if (at := first_difference(one.tokens, two.tokens)) is not None]
        faster = statistics.median(one.seconds / two.seconds for one, two in pairs)
        counts = f"{sum(same)} of {len(pairs)}", f"{len(pairs) - len(differences)} of {len(pairs)}"
        lines.append((model, *counts, f"{faster:.2f}"))
        for one, two in pairs:
            at = first_difference(one.tokens, two.tokens)
            if at is not None:
                texts = [" ".join(map(repr, row.texts[at : at + 6])) for row in (one, two)]
                before = "".join(one.texts[:at])[-30:]
                notes.append(f"{model}, {one.question}: after {before!r}: {texts[0]} / {texts[1]}")
    return Table(
        "The same words in the same tokens",
        "*words*: the same calls with the same arguments. *tokens*: the model read and wrote the same tokens up to the "
        "end of the last hole. Every difference is listed by its first token that differs, without skipping first. "
        "*faster* is the median of each question's own ratio.",
        ("model", "words", "tokens", "faster"),
        lines,
        notes,
        text_columns=1,
    )


def first_difference(one: Sequence[int], two: Sequence[int]) -> int | None:
    """Where two answers begin to differ; None if the shorter is the beginning of the longer."""
    return next((at for at, (left, right) in enumerate(zip(one, two, strict=False)) if left != right), None)


def shares_table(rows: Sequence[TokenRow]) -> Table:
    lines: list[tuple[str, ...]] = []
    for model in dict.fromkeys(row.model for row in rows):
        for mode, mode_rows in zip(_MODES, _by_mode(rows, model), strict=True):
            count = len(mode_rows)

            def mean(name: str, mode_rows: Sequence[TokenRow] = mode_rows, count: int = count) -> float:
                return sum(getattr(row, name) for row in mode_rows) / count

            seconds, generation, masks = mean("seconds"), mean("generation"), mean("masks")
            parts = mean("evaluation"), max(generation - masks, 0.0), masks, mean("compilation")
            parts = (*parts, max(seconds - sum(parts), 0.0))
            lines.append(
                (
                    *(model, mode),
                    *(f"{mean(name):.1f}" for name in ("requests", "generated", "appended", "evaluated")),
                    f"{seconds:.2f}",
                    *(f"{100 * part / seconds:.0f}%" for part in parts),
                    f"{1000 * mean('evaluation') / max(mean('evaluated'), 1):.0f}",
                    f"{1000 * generation / max(mean('generated'), 1):.0f}",
                )
            )
    return Table(
        "Where the time of a call goes",
        "Means per call. *evaluated* are the tokens that llama.cpp read: the appended ones, and again the last of each "
        "request's prompt. *reading* and *writing* are llama.cpp's own times for them and for the generated tokens; "
        "*masks* and *compiling* are measured by computing the same masks again, and *masks* is subtracted from "
        "*writing*. *rest* is what remains: starting requests, tokenizing, events, and waiting for the processor. The "
        "last two columns are milliseconds per token read and written.",
        (
            *("model", "mode", "requests", "generated", "appended", "evaluated", "seconds"),
            *("reading", "writing", "masks", "compiling", "rest", "ms read", "ms written"),
        ),
        lines,
        text_columns=2,
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench-skip-tokens", description=__doc__)
    parser.add_argument("--questions", type=int, default=48, help="number of questions for each model")
    parser.add_argument("--model", action="append", choices=tuple(_MODELS), help="only this model; may be repeated")
    parser.add_argument("--anew", action="store_true", help="discard the saved results of an earlier run")
    parser.add_argument("--print", action="store_true", help="save the results, but do not write the page")
    arguments = parser.parse_args()
    saved = SavedParts("skip-tokens")
    if arguments.anew:
        saved.clear()
    console, rows = Console(), list[TokenRow]()
    with Progress(*Progress.get_default_columns(), TimeRemainingColumn(), console=console) as progress:
        for model in arguments.model or _MODELS:
            task = progress.add_task(model, total=arguments.questions)
            rows += asyncio.run(measure(model, arguments.questions, saved, lambda t=task: progress.advance(t)))
    tables = [words_table(rows), shares_table(rows)]
    for table in tables:
        print_table(table, console)
    if not arguments.print:
        command = f"```sh\nscripts/setup-weights\nscripts/bench-skip-tokens --questions {arguments.questions}\n```"
        about = describe_environment(measured_environment())
        publish("skip-tokens", "Skip: tokens and time", [command, about, *map(markdown, tables)])
        saved.clear()


if __name__ == "__main__":
    main()
