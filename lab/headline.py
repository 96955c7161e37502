"""Compare an engine's own tool calling with Ferrule on the same engine: same questions, weights and template.

For each engine one server is started, with a template for Hermes calls. Both get the same questions, one after the
other, with a call required.
"""

import argparse
import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress

from ferrule.bench.bfcl_requests import Question, load_questions
from ferrule.bench.tables import Table, markdown, print_table
from ferrule.bench.validity_count import ReplyCounts, count_replies
from ferrule.core.request import ToolChoice
from ferrule.engines.http import HttpClient
from ferrule.engines.llama_server import llama_server
from ferrule.engines.text.engine import TextEngine
from ferrule.engines.vllm import vllm
from lab import servers
from lab.environment import describe_environment, measured_environment
from lab.native_calls import count_native_replies
from lab.paths import CACHE
from lab.results_page import publish

_SECTION: Final = "headline"
_HEADING: Final = "An engine's own tool calling, and Ferrule on the same engine"
_COMMAND: Final = "```sh\nscripts/setup-llama\nscripts/setup-vllm\nscripts/long headline {}\n```"
_ENGINES: Final[dict[str, tuple[Callable[[], AbstractContextManager[str]], Callable[[str], TextEngine]]]] = {
    "llama.cpp server": (servers.llama_server, llama_server),
    "vLLM": (servers.vllm_server, vllm),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long headline", description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=200, help="how many questions (default: 200)")
    parser.add_argument("--engine", action="append", choices=tuple(_ENGINES), help="one of them only")
    parser.add_argument("--max-tokens", type=int, default=512)
    arguments = parser.parse_args()
    console = Console()
    questions = load_questions(arguments.count)
    with Progress(console=console) as progress:
        for name in arguments.engine or _ENGINES:
            start, engine = _ENGINES[name]
            task = progress.add_task(name, total=2 * len(questions))
            with start() as url:
                rows = asyncio.run(
                    _both(name, url, engine, questions, arguments.max_tokens, lambda t=task: progress.advance(t))
                )
            # Saved, so that the engines can be measured one at a time.
            result = {
                "count": len(questions),
                "max_tokens": arguments.max_tokens,
                "rows": [asdict(row) for row in rows],
            }
            _file(name).parent.mkdir(parents=True, exist_ok=True)
            _file(name).write_text(json.dumps(result), encoding="utf-8")
    results = [json.loads(_file(name).read_text(encoding="utf-8")) for name in _ENGINES if _file(name).exists()]
    same = [one for one in results if (one["count"], one["max_tokens"]) == (len(questions), arguments.max_tokens)]
    rows = [HeadlineRow(row["engine"], row["by"], ReplyCounts(**row["tally"])) for one in same for row in one["rows"]]
    table = _table(rows, len(questions), arguments.max_tokens)
    print_table(table, console)
    if len(same) == len(_ENGINES):
        command = _COMMAND.format(f"{len(questions)} --max-tokens {arguments.max_tokens}")
        publish(_SECTION, _HEADING, [command, describe_environment(measured_environment()), markdown(table)])


@dataclass(frozen=True, slots=True)
class HeadlineRow:
    engine: str
    by: str
    tally: ReplyCounts


def _file(engine: str) -> Path:
    return CACHE / "results" / f"headline-{engine.replace(' ', '-')}.json"


async def _both(
    name: str,
    url: str,
    engine: Callable[[str], TextEngine],
    questions: list[Question],
    max_tokens: int,
    advance: Callable[[], None],
) -> list[HeadlineRow]:
    http = HttpClient(url)
    native = await count_native_replies(http, questions, "required", max_tokens=max_tokens, advance=advance)
    await http.close()
    async with engine(url) as text_engine:
        ours = await count_replies(
            text_engine, questions, ToolChoice.required(), concurrency=8, max_tokens=max_tokens, advance=advance
        )
    return [HeadlineRow(name, "its own tool calling", native), HeadlineRow(name, "Ferrule", ours)]


def _table(rows: list[HeadlineRow], count: int, max_tokens: int) -> Table:
    return Table(
        f"{count} questions of BFCL v4, a call required, at most {max_tokens} tokens",
        "SmolLM2-135M-Instruct with Qwen 2.5's template. *valid*: replies that contain a call, were not cut off, and "
        "whose calls all name an offered tool and match its schema according to an independent validator "
        "(`jsonschema`).",
        ("engine", "by", "valid", "calls", "invalid calls", "cut off", "no call", "refused", "errors", "tokens"),
        [
            (
                *(row.engine, row.by, f"{t.valid} of {t.replies} ({t.share})"),
                *map(str, (t.calls, t.invalid_calls, t.cut_off, t.no_call, t.refused, t.errors, t.tokens)),
            )
            for row in rows
            for t in (row.tally,)
        ],
        [f"{row.engine}, {row.by}: {problem}" for row in rows for problem in row.tally.problems[:4]],
        text_columns=3,
    )


if __name__ == "__main__":
    main()
