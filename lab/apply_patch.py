"""Ask a model for patches, with and without their grammar: `scripts/long apply-patch [N]`.

Each question shows a short file and asks for one change. A patch counts if a parser that was written apart from the
grammar reads it. Whether it also applies, and makes the change that was asked for, is counted beside it: a grammar
promises the first and not the second.
"""

import argparse
import asyncio
import re
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress

from ferrule import TextGrammar, ToolChoice, ToolDefinition
from ferrule.bench.tables import Table, markdown, print_table
from ferrule.core.message import ChatMessage
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import Engine
from ferrule.engines.llama import llama
from lab.environment import describe_environment, measured_environment
from lab.results_page import publish
from lab.servers import QWEN

MODELS: Final = ("0.5B", "1.5B")
_SECTION: Final = "apply-patch"
_HEADING: Final = "Patches under their grammar"
_COMMAND: Final = "```sh\nscripts/setup-weights qwen2.5-coder-0.5b qwen2.5-coder-1.5b\nscripts/long apply-patch {}\n```"
_ABOUT: Final = (
    "Qwen2.5-Coder-Instruct in process, one thread, temperature 0, a call of `apply_patch` required, at most {} "
    "tokens. Each question shows a file of a few lines and asks for one change. *Parse*: a parser apart from the "
    "grammar reads the patch. *Cut off*: the budget ended inside the call, which is then no call. *Applies*: the "
    "lines that the patch expects are in the file. *Right*: the changed file is the one that was asked for."
)
_TOKENS: Final = 220
_DESCRIPTION: Final = (
    "Changes files by a patch. A patch begins with a line *** Begin Patch, then *** Update File: NAME, then @@, then "
    "the changed lines: a removed line with - before it, an added line with + before it, an unchanged line with a "
    "space before it. Its last line is *** End Patch."
)
GRAMMAR: Final = TextGrammar(
    "lark",
    r"""
start: begin hunk+ end
begin: "*** Begin Patch" LF
end: "*** End Patch" LF?
hunk: add | delete | update
add: "*** Add File: " name LF added+
delete: "*** Delete File: " name LF
update: "*** Update File: " name LF move? change?
name: /(.+)/
added: "+" /(.*)/ LF -> line
move: "*** Move to: " name LF
change: (context | line)+ last?
context: ("@@" | "@@ " /(.+)/) LF
line: ("+" | "-" | " ") /(.*)/ LF
last: "*** End of File" LF
%import common.LF
""",
)
_HUNK_HEAD: Final = re.compile(r"\*\*\* (Add|Delete|Update) File: (.+)")
_NAMES: Final = ("total", "limit", "host", "level", "colour", "retries", "width", "title", "city", "count")
_VALUES: Final = ("1", "20", '"red"', "3.5", "None", '"a b"', "[1, 2]", "True", "-7", '"C:\\\\temp"')


@dataclass(frozen=True, slots=True)
class Question:
    """One file and the change that is asked for."""

    file: str
    old: str
    new: str
    request: str


@dataclass(frozen=True, slots=True)
class Hunk:
    """One hunk of a patch: what happens to which file, and its lines with their marks."""

    kind: str
    file: str
    lines: tuple[str, ...]


def question(number: int) -> Question:
    """A file of assignments, of which one gets another value."""
    names = [_NAMES[(number + place) % len(_NAMES)] for place in range(4)]
    values = [_VALUES[(3 * number + place) % len(_VALUES)] for place in range(4)]
    place = number % 4
    value = _VALUES[(3 * number + 5) % len(_VALUES)]
    lines = [f"{name} = {one}" for name, one in zip(names, values, strict=True)]
    changed = [*lines[:place], f"{names[place]} = {value}", *lines[place + 1 :]]
    file = f"settings_{number}.py"
    text = "\n".join(lines)
    request = f"The file {file} contains:\n\n{text}\n\nChange the line `{lines[place]}` to `{changed[place]}`."
    return Question(file, text + "\n", "\n".join(changed) + "\n", request)


def read_patch(text: str) -> list[Hunk] | None:
    """Read a patch line by line; None if it is none."""
    lines = text.removesuffix("\n").split("\n")
    if len(lines) < 3 or lines[0] != "*** Begin Patch" or lines[-1] != "*** End Patch":
        return None
    hunks: list[Hunk] = []
    for line in lines[1:-1]:
        head = _HUNK_HEAD.fullmatch(line)
        if head:
            hunks.append(Hunk(head[1], head[2], ()))
        elif not hunks or not _fits(hunks[-1], line):
            return None
        else:
            last = hunks.pop()
            hunks.append(Hunk(last.kind, last.file, (*last.lines, line)))
    is_whole = bool(hunks) and all(hunk.lines or hunk.kind != "Add" for hunk in hunks)
    return hunks if is_whole else None


def _fits(hunk: Hunk, line: str) -> bool:
    """Whether a line may come next in a hunk."""
    if hunk.kind != "Update":
        return hunk.kind == "Add" and line.startswith("+")
    if hunk.lines and hunk.lines[-1] == "*** End of File":
        return False
    if line.startswith("*** Move to: "):
        return not hunk.lines and len(line) > len("*** Move to: ")
    if line == "*** End of File":
        return any(one[:1] in ("+", "-", " ", "@") for one in hunk.lines)
    return line == "@@" or (line.startswith("@@ ") and len(line) > 3) or line[:1] in ("+", "-", " ")


def apply_patch(hunks: list[Hunk], asked: Question) -> str | None:
    """The file after the patch; None if the patch does not fit it."""
    text = asked.old
    for hunk in hunks:
        if hunk.kind != "Update" or hunk.file != asked.file:
            return None
        marked = [line for line in hunk.lines if line[:1] in ("+", "-", " ")]
        old = "".join(f"{line[1:]}\n" for line in marked if line[0] != "+")
        new = "".join(f"{line[1:]}\n" for line in marked if line[0] != "-")
        if not old or old not in text:
            return None
        text = text.replace(old, new, 1)
    return text


async def ask(engine: Engine, asked: Question, *, is_held: bool) -> str:
    """One patch: "right", "applies", "parses", "not a patch" or "cut off"."""
    tool = ToolDefinition.custom("apply_patch", _DESCRIPTION, GRAMMAR if is_held else None)
    request = ToolCallRequest(
        messages=(ChatMessage.user(asked.request),),
        tools=(tool,),
        tool_choice=ToolChoice.required(),
        parallel_tool_calls=False,
        max_tokens=_TOKENS,
        temperature=0.0,
    )
    reply = await engine.generate_with_tools(request)
    if not reply.calls:
        return "cut off"
    hunks = read_patch(reply.calls[0].arguments["input"])
    if hunks is None:
        return "not a patch"
    changed = apply_patch(hunks, asked)
    return "parses" if changed is None else "right" if changed == asked.new else "applies"


async def rows_of(model: str, count: int, progress: Progress) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    path = weights_of(model)
    async with llama(str(path), threads=1) as engine:
        for is_held in (True, False):
            label = f"{model}, {'with' if is_held else 'without'} the grammar"
            counts: Counter[str] = Counter()
            started = time.perf_counter()
            for number in progress.track(range(count), description=label):
                counts[await ask(engine, question(number), is_held=is_held)] += 1
            seconds = (time.perf_counter() - started) / count
            applies = counts["applies"] + counts["right"]
            figures = (counts["parses"] + applies, counts["cut off"], applies, counts["right"])
            rows.append((label, str(count), *map(str, figures), f"{seconds:.1f}"))
    return rows


def weights_of(model: str) -> Path:
    return QWEN.with_name(QWEN.name.replace("0.5b", model.lower()))


async def run(count: int, models: list[str]) -> Table:
    columns = ("model", "questions", "parse", "cut off", "applies", "right", "seconds each")
    with Progress(console=Console(stderr=True)) as progress:
        rows = [row for model in models for row in await rows_of(model, count, progress)]
    return Table("Patches", _ABOUT.format(_TOKENS), columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long apply-patch")
    parser.add_argument("count", nargs="?", type=int, default=50, metavar="N", help="questions for each row (50)")
    parser.add_argument("--model", action="append", choices=MODELS, help="only this model; may be given twice")
    parser.add_argument("--print", action="store_true", help="print only; the page stays unchanged")
    arguments = parser.parse_args()
    table = asyncio.run(run(arguments.count, arguments.model or list(MODELS)))
    print_table(table, Console(width=120))
    if not arguments.print:
        parts = [_COMMAND.format(arguments.count), describe_environment(measured_environment()), markdown(table)]
        publish(_SECTION, _HEADING, parts)


if __name__ == "__main__":
    main()
