"""Output on a terminal. This is the only module that uses rich, which is imported when something is shown.

Any text may come from a model. So rich's markup is disabled, and hidden characters are escaped (`core.visible_text`):
in names and arguments all of them, in prose those that it does not need.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from ferrule.cli.format_facts import FormatFacts, legible
from ferrule.cli.markdown_blocks import MarkdownBlocks
from ferrule.core.call import ToolCall
from ferrule.core.event import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    Diagnostic,
    Event,
    Finish,
    ReasoningDelta,
    RuleShown,
    TextDelta,
    ToolSearch,
    Usage,
    WireText,
    add_usage,
)
from ferrule.core.message import Reasoning, Text
from ferrule.core.reply import Reply, ReplyPart
from ferrule.core.visible_text import visible, visible_prose

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text as Styled

_TITLE, _CALL, _BAD, _ODD, _FAINT = "bold", "bold cyan", "bold red", "yellow", "dim"


def show_formats(formats: list[FormatFacts]) -> None:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 1, 0), pad_edge=False, header_style=_TITLE)
    table.add_column("format\nfamily", no_wrap=True)
    table.add_column("for\nmarkers", ratio=1)
    table.add_column("arguments\nids", max_width=13)
    table.add_column("thinks\n", no_wrap=True)
    for facts in formats:
        table.add_row(
            _join("\n", (facts.name, _CALL), (facts.family or "", _FAINT)),
            _join("\n", (facts.about, ""), (legible(facts.markers), _FAINT)),
            _join("\n", (facts.arguments, ""), (facts.ids.replace("_", " "), _FAINT)),
            "yes" if facts.reasoning else "no",
        )
    _console().print(table)


def show_sections(title: str, sections: list[tuple[str, str]]) -> None:
    console = _console()
    console.print(_style(title, _CALL))
    for heading, body in sections:
        console.print()
        console.print(_style(heading, _TITLE))
        # The terminal wraps it, so that copied text is exact.
        console.print(_style(body), soft_wrap=True)


def show_table(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Print a table. A first cell that repeats the one above is left empty."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 1, 0), pad_edge=False, header_style=_TITLE)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    above = ""
    for first, *others in rows:
        table.add_row(_style("" if first == above else first, _CALL), *map(_style, others))
        above = first
    _console().print(table)


def show_lines(lines: Iterable[str]) -> None:
    """Print lines of text."""
    console = _console()
    for line in lines:
        console.print(_style(line))


@contextmanager
def progress(doing: str, total: int) -> Generator[Callable[[str], None]]:
    """A progress bar on stderr, if that is a terminal. Call the function that it yields with each step's name."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True, markup=False, emoji=False)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(doing, total=total)
        yield lambda step: bar.update(task, advance=1, description=printable(step))


def show_reply(reply: Reply) -> None:
    """Print the parts in their order, then the diagnostics. Each has a label, to be readable without colours."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for part in reply.parts:
        _add_part(grid, part)
    for diagnostic in reply.diagnostics:
        grid.add_row(_style("diagnostic", _ODD), _diagnostic_text(diagnostic))
    grid.add_row(_style("finish", _FAINT), _style(reply.finish_reason.value, _FAINT))
    _console().print(grid)


class ReplyView(Protocol):
    """Shows replies as they stream. After `pause` and `end` the cursor is at the beginning of a line."""

    activity: str
    """What is done now, if it is not the model that writes."""

    def start(self) -> None: ...

    def show(self, event: Event) -> None: ...

    def pause(self) -> None: ...

    def end(self) -> None: ...

    @property
    def summary(self) -> str: ...


def reply_view() -> ReplyView:
    """Return the view for the output that there is."""
    console = _console()
    return MarkdownReply() if console.is_terminal and not console.is_dumb_terminal else LiveReply()


class LiveReply:
    """Prints a reply as it streams: text, calls with their arguments, and the receipt under each call."""

    def __init__(self) -> None:
        self.activity = ""
        self._console = _console()
        self._is_at_start = True

    def show(self, event: Event) -> None:
        match event:
            case TextDelta(text):
                self._write(text)
            case ReasoningDelta(text):
                if text:
                    self._write(text, _FAINT)
            case CallStart(_, _, name):
                self._line()
                self._write(f"{visible(name)} ", _CALL)
            case ArgumentsDelta(_, json):
                self._write(visible(json))
            case CallEnd(_, complete, receipt):
                self._line()
                if not complete:
                    self._write("rejected\n", _BAD)
                if receipt:
                    self._write(f"  {receipt}\n", _FAINT)
            case Diagnostic():
                self._line()
                self._console.print(_diagnostic_text(event))
            case Finish() | RuleShown() | WireText() | ToolSearch():
                pass

    def start(self) -> None:
        return

    def pause(self) -> None:
        self._line()

    def end(self) -> None:
        self._line()

    @property
    def summary(self) -> str:
        return ""

    def _write(self, text: str, style: str = "") -> None:
        if text:
            self._console.print(_style(text, style), end="", soft_wrap=True)
            self._is_at_start = text.endswith("\n")

    def _line(self) -> None:
        if not self._is_at_start:
            self._console.print()
            self._is_at_start = True


class MarkdownReply:
    """The same on a terminal: Markdown is rendered block by block. Below it is what is not complete, and a status."""

    def __init__(self) -> None:
        self.activity = ""
        self._console = _console()
        self._blocks = MarkdownBlocks()
        self._reasoning = self._call = ""
        self._has_printed = False
        self._live: Live | None = None
        self._started = time.monotonic()
        self._tokens = 0
        self._usage: Usage | None = None

    def start(self) -> None:
        """Show the status from now on, also before the first event."""
        from rich.live import Live

        if self._live is None:
            self._live = Live(
                get_renderable=self._unfinished, console=self._console, transient=True, refresh_per_second=8
            )
            self._live.start()

    def show(self, event: Event) -> None:
        self.start()
        match event:
            case TextDelta(text):
                self._print_reasoning()
                self._print_block(self._blocks.add(text))
            case ReasoningDelta(text):
                self._reasoning += text
            case CallStart(_, _, name):
                self._print_rest()
                self._call = f"{visible(name)} "
            case ArgumentsDelta(_, json):
                self._call += visible(json)
            case CallEnd(_, complete, receipt):
                name, _, arguments = self._call.partition(" ")
                self._call = ""
                self._print(_join(" ", (name, _CALL), (arguments, "")))
                if not complete:
                    self._print(_style("rejected", _BAD))
                if receipt:
                    self._print(_style(f"  {receipt}", _FAINT))
            case Diagnostic():
                self._print_rest()
                self._print(_diagnostic_text(event))
            case WireText(_, is_forced):
                self._tokens += not is_forced
            case Finish(_, usage):
                self._usage = add_usage(self._usage, usage)
            case RuleShown() | ToolSearch():
                pass

    def pause(self) -> None:
        """Stop drawing, for a question. The next event resumes it."""
        self._print_rest()
        if self._live is not None:
            self._live.stop()
            self._live = None

    def end(self) -> None:
        self.pause()

    @property
    def summary(self) -> str:
        """What the replies took."""
        seconds = time.monotonic() - self._started
        if self._usage is None:
            return f"{seconds:.1f} s"
        cached = f" ({self._usage.cached_tokens:,} cached)" if self._usage.cached_tokens else ""
        prompt, reply = self._usage.prompt_tokens, self._usage.completion_tokens
        return f"prompt {prompt:,} tokens{cached}, reply {reply:,} tokens, {seconds:.1f} s"

    def _unfinished(self) -> RenderableType:
        from rich.console import Group

        tail = self._call or self._blocks.rest or self._reasoning
        seconds = time.monotonic() - self._started
        count = f"about {self._tokens:,} tokens · " if self._tokens else ""
        doing = self.activity or ("writing" if self._tokens or tail else "waiting for the model")
        status = _style(f"{doing} · {count}{seconds:.0f} s · Ctrl-C stops", _FAINT)
        if not tail:
            return status
        # A region that is higher than the terminal cannot be drawn over.
        most = max(self._console.height - 3, 1)
        lines = _style(tail).wrap(self._console, self._console.width)[-most:]
        return Group(*lines, status)

    def _print(self, renderable: RenderableType) -> None:
        if self._live is not None:
            # Without what is printed now.
            self._live.refresh()
        self._console.print(renderable)

    def _print_rest(self) -> None:
        self._print_reasoning()
        self._print_block(self._blocks.take())

    def _print_reasoning(self) -> None:
        reasoning, self._reasoning = self._reasoning.strip("\n"), ""
        if reasoning:
            self._print(_style(reasoning, _FAINT))

    def _print_block(self, text: str) -> None:
        if text.strip():
            if self._has_printed:
                self._print("")
            self._print(_markdown(printable(text)))
            self._has_printed = True


def _markdown(text: str) -> RenderableType:
    """Markdown in which nothing is hidden: HTML, targets of links and definitions are printed, entities not decoded."""
    from markdown_it import MarkdownIt
    from rich.markdown import Markdown

    parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
    rendered = Markdown("", hyperlinks=False)
    rendered.parsed = parser.disable(["entity", "image", "reference"]).parse(text)
    for token in rendered.parsed:
        for child in token.children or ():
            # Models break lines where they want them broken.
            child.type = "hardbreak" if child.type == "softbreak" else child.type
    return rendered


@contextmanager
def status(doing: str) -> Generator[None]:
    """A line on stderr, if that is a terminal, while something takes long."""
    from rich.console import Console

    console = Console(stderr=True, markup=False, emoji=False, highlight=False)
    if not console.is_terminal or console.is_dumb_terminal:
        yield
        return
    with console.status(_style(doing, _FAINT)):
        yield


def show_facts(title: str, facts: Iterable[tuple[str, str]]) -> None:
    """Print a title, and under it a column of names with what they are."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in facts:
        grid.add_row(_style(name, _FAINT), _style(value))
    console = _console()
    console.print(_style(title, _TITLE))
    console.print(grid)


def show_plain(text: str) -> None:
    # The terminal wraps it, so that copied text is exact.
    _console().print(_style(text), soft_wrap=True)


def show_raw(pieces: Iterable[WireText]) -> None:
    """Print what a model wrote. Text that the grammar forced, and that was not generated, is faint."""
    console = _console()
    for piece in pieces:
        console.print(_style(piece.text, _FAINT if piece.is_forced else ""), end="", soft_wrap=True)
    console.print()


def show_hint(text: str) -> None:
    _console().print(_style(text, _FAINT))


def show_result(name: str, text: str) -> None:
    _console().print(_join(" ", (f"{visible(name)} returned", _FAINT), (text, "")))


def show_note(words: str) -> None:
    if words:
        _console().print(_style(words, _ODD))


def show_error(message: str, hint: str = "") -> None:
    console = _console()
    console.print(_join(" ", ("error:", _BAD), (message, "")))
    if hint:
        console.print(_join(" ", ("hint:", _FAINT), (hint, "")))


def prompt(words: str) -> None:
    _console().print(_style(f"{words} ", _TITLE), end="")


def _add_part(grid: Table, part: ReplyPart) -> None:
    match part:
        case Text(text):
            grid.add_row(_style("text", _FAINT), _style(text))
        case Reasoning(text):
            grid.add_row(_style("reasoning", _FAINT), _style(text, _FAINT))
        case ToolCall():
            warning = "" if part.complete else "incomplete: never run it"
            grid.add_row(
                _style("call", _CALL),
                _join("  ", (visible(part.name), _CALL), (visible(part.id), _FAINT), (warning, _BAD)),
            )
            grid.add_row("", _style(visible(part.function.arguments)))


def _diagnostic_text(diagnostic: Diagnostic) -> Styled:
    about = f"{diagnostic.code}: {diagnostic.message}"
    return _style(f"{about}\n{diagnostic.text}" if diagnostic.text else about, _ODD)


def _join(sep: str, *texts: tuple[str, str]) -> Styled:
    """Join styled texts. Empty texts are left out."""
    from rich.text import Text as Styled

    return Styled(sep).join(_style(text, style) for text, style in texts if text)


def _style(text: str, style: str = "") -> Styled:
    from rich.text import Text as Styled

    return Styled(printable(text), style)


def printable(text: str) -> str:
    """Escape the characters that cannot be seen, except line breaks and what else prose needs."""
    return visible_prose(text)


def _console() -> Console:
    from rich.console import Console

    # rich itself looks at NO_COLOR, TERM and whether the output is a terminal.
    return Console(highlight=False, markup=False, emoji=False)
