"""The commands of `ferrule chat`: lines that begin with a slash."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ferrule.cli import json_view, terminal
from ferrule.cli.chat_approval import MEANINGS, ApprovalMode
from ferrule.cli.chat_session import ChatSession
from ferrule.core.event import RuleShown, WireText
from ferrule.core.visible_text import visible
from ferrule.engines.engine import Engine
from ferrule.errors import DefinitionError, FerruleError
from ferrule.server.secret_mask import mask_secrets
from ferrule.sources.status import SourceState, SourceStatus

SIDE_EFFECTS = "*"
"""Marks the tools with side effects where only names are shown."""
_MAX_DESCRIPTION = 200
_MAX_NAMES = 12


@dataclass(frozen=True, slots=True)
class _Command:
    usage: str
    about: str
    run: Callable[[ChatCommands, str], Awaitable[None]]


class ChatCommands:
    """Runs commands on a session. `load` makes the engine that /model names."""

    def __init__(
        self, session: ChatSession, model: str, load: Callable[[str], Awaitable[Engine]], facts: list[tuple[str, str]]
    ) -> None:
        self.is_over = False
        self._session = session
        self._model = model
        self._load = load
        self._facts = facts
        self._saved: Path | None = None

    async def run(self, line: str) -> None:
        """Run one command. What is wrong with it is printed."""
        name, *rest = line.split(maxsplit=1)
        command = COMMANDS.get(name)
        if command is None:
            hint = "/help lists the commands. To send a text that begins with a slash, write two."
            terminal.show_error(f"there is no command {visible(name)}", hint)
            return
        try:
            await command.run(self, "".join(rest))
        except FerruleError as error:
            terminal.show_error(error.message, error.hint)

    async def show_banner(self, title: str, note: str) -> None:
        facts = [("model", mask_secrets(self._model)), *([("", note)] if note else []), *self._facts]
        facts += [("tools", await self._tool_names()), ("approval", self._approval())]
        facts += [("", _problem(status)) for status in self._problems()]
        terminal.show_facts(title, facts)

    async def _tool_names(self) -> str:
        tools = await self._session.tools()
        names = [visible(one.name) + (SIDE_EFFECTS if one.side_effects else "") for one in tools]
        if not names:
            return "none; add some with --tools, --mcp-config, --openapi or --nats"
        rest = f", and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        meaning = f" ({SIDE_EFFECTS} has side effects)" if any(one.side_effects for one in tools) else ""
        return ", ".join(names[:_MAX_NAMES]) + rest + meaning

    def _approval(self) -> str:
        mode = self._session.approval.mode
        others = " · ".join(f"/approve {one}" for one in ApprovalMode if one is not mode)
        return f"{mode}: {MEANINGS[mode]}\n{others}"

    def _problems(self) -> list[SourceStatus]:
        return [one for one in self._session.source.statuses if one.state is not SourceState.READY or one.quarantined]

    async def help(self, argument: str) -> None:
        terminal.show_facts("Commands", [(one.usage, one.about) for one in COMMANDS.values()])
        keys = [
            ("Enter", "sends the message"),
            ("Alt-Enter", "begins a new line; so does Enter after a backslash"),
            ("Up, Down", "earlier messages; Ctrl-R searches them"),
            ("Ctrl-C", "stops the answer, or clears the line; twice leaves"),
            ("Ctrl-D", "leaves"),
        ]
        terminal.show_facts("Keys", keys)

    async def tools(self, argument: str) -> None:
        tools = await self._session.tools()
        rows = [
            (
                visible(tool.name),
                self._session.source.owner_of(tool.name),
                "yes" if tool.side_effects else "no",
                " ".join(tool.description.split())[:_MAX_DESCRIPTION],
            )
            for tool in tools
        ]
        if rows:
            terminal.show_table(("tool", "source", "effects", "description"), rows)
        else:
            terminal.show_note("no tools are offered")
        terminal.show_lines([*map(_problem, self._problems()), *self._session.source.notices])

    async def approve(self, argument: str) -> None:
        approval = self._session.approval
        if argument:
            if argument not in tuple(ApprovalMode):
                raise DefinitionError(f"there is no approval mode {argument!r}", hint="Write ask, all or none.")
            approval.mode = ApprovalMode(argument)
            approval.always.clear()
        terminal.show_facts(
            "Approval",
            [(f"{mode} <" if mode is approval.mode else mode.value, MEANINGS[mode]) for mode in ApprovalMode],
        )
        if approval.always:
            terminal.show_hint(f"without a question: {', '.join(map(visible, sorted(approval.always)))}")

    async def raw(self, argument: str) -> None:
        shown = [one for one in self._session.raw if isinstance(one, RuleShown)]
        match argument:
            case "prompt" | "grammar" if shown:
                terminal.show_plain(shown[-1].prompt if argument == "prompt" else shown[-1].grammar)
            case "" if self._session.raw:
                terminal.show_raw(one for one in self._session.raw if isinstance(one, WireText))
            case "" | "prompt" | "grammar":
                hint = "Engines that are asked over a chat API do not show it; llama, vllm, sglang and llama-server do."
                raise DefinitionError("there is no raw output of the last answer", hint=hint)
            case _:
                raise DefinitionError(f"/raw shows no {argument!r}", hint="Write /raw, /raw prompt or /raw grammar.")

    async def save(self, argument: str) -> None:
        if not argument:
            raise DefinitionError("/save needs a file", hint="Write /save FILE.json; --load FILE.json continues it.")
        path = Path(argument).expanduser()
        try:
            # A file that somebody else wrote is not replaced.
            with path.open("w" if path == self._saved else "x", encoding="utf-8") as file:
                file.write(json_view.page(self._session.save()) + "\n")
        except FileExistsError:
            raise DefinitionError(f"{argument} exists", hint="Name another file; none is overwritten.") from None
        except OSError as problem:
            raise DefinitionError(f"cannot write {argument}: {problem.strerror}") from problem
        self._saved = path
        terminal.show_hint(f"saved {len(self._session.messages)} messages; --load {argument} continues them")

    async def model(self, argument: str) -> None:
        if argument:
            engine = await self._load(argument)
            previous = self._session.engine
            self._session.use_engine(engine)
            await previous.close()
            self._model = argument
        terminal.show_hint(f"model: {mask_secrets(self._model)}")

    async def new(self, argument: str) -> None:
        self._session.restart()
        terminal.show_hint("a new conversation")

    async def exit(self, argument: str) -> None:
        self.is_over = True


def _problem(status: SourceStatus) -> str:
    reasons = [status.reason, *(f"{one.tool}: {one.reason}" for one in status.quarantined)]
    return f"{visible(status.name)} is {status.state}: {'; '.join(filter(None, reasons)) or 'no reason is known'}"


COMMANDS: Mapping[str, _Command] = {
    "/help": _Command("/help", "lists commands and keys", ChatCommands.help),
    "/tools": _Command("/tools", "lists the tools, their sources and which have side effects", ChatCommands.tools),
    "/approve": _Command("/approve [ask|all|none]", "shows or sets who approves side effects", ChatCommands.approve),
    "/raw": _Command("/raw [prompt|grammar]", "shows what the model wrote or read in the last turn", ChatCommands.raw),
    "/save": _Command("/save FILE", "saves the conversation as JSON", ChatCommands.save),
    "/model": _Command("/model [ENGINE]", "shows the model, or continues with another one", ChatCommands.model),
    "/new": _Command("/new", "begins a new conversation", ChatCommands.new),
    "/exit": _Command("/exit", "leaves", ChatCommands.exit),
}
