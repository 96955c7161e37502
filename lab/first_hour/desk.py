"""The desk of a newcomer: an empty venv, an empty home folder, and what was done there."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab.first_hour.pages import Page
from lab.first_hour.terminal import CTRL_C, CommandFailedError, Terminal

# What would change how a command behaves or what it finds: this checkout, another venv, another cache, another look.
_UNSET: Final = re.compile(r"PYTHON|VIRTUAL_ENV|HF_|FERRULE_|XDG_|NO_COLOR|FORCE_COLOR|COLUMNS|LINES|CI$|BASH_ENV")
# Addresses of package indexes belong to the machine.
_PLACES: Final = re.compile(r"^(Looking in |WARNING: Location )")


@dataclass(frozen=True, slots=True)
class Step:
    """A command of a page that was run. `first_output` is after how many seconds the person saw something."""

    page: str
    command: str
    seconds: float
    first_output: float
    output: str

    @property
    def first_line(self) -> str:
        """What the person saw first."""
        lines = (line.strip() for line in self.output.splitlines() if not _PLACES.match(line))
        return next((line for line in lines if line), "")


class Desk:
    """Commands run here in order; a `cd` of one holds for the next. `wheels` is the folder with Ferrule's wheel."""

    def __init__(self, folder: Path, wheels: Path, hub: str) -> None:
        self.folder = folder / "desk"
        self.home = folder / "home"
        self._last = folder / "last_folder"
        for path in (self.folder, self.home):
            path.mkdir(parents=True)
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        (wheel,) = wheels.glob("ferrule-*.whl")
        constraint = folder / "constraint.txt"
        constraint.write_text(f"ferrule=={wheel.name.split('-')[1]}\n", encoding="utf-8")
        self.environment = {
            **{name: value for name, value in os.environ.items() if not _UNSET.match(name)},
            "PATH": f"{folder / 'venv' / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "HF_HOME": str(folder / "hf"),
            "HF_ENDPOINT": hub,
            # The pages install Ferrule from an index. Here its wheel is found in this folder.
            "PIP_FIND_LINKS": f"{os.environ.get('PIP_FIND_LINKS', '')} {wheels}".strip(),
            "PIP_CONSTRAINT": str(constraint),
            "PIP_CACHE_DIR": str(folder / "pip"),
        }
        self.steps: list[Step] = []
        self.began = time.monotonic()
        self.first_call = 0.0
        """Seconds until the first real call."""

    def save(self, page: Page, name: str) -> None:
        (self.folder / name).write_text(page.files[name], encoding="utf-8")

    def run(
        self,
        page: Page,
        beginning: str,
        *promised: str,
        replaced: Mapping[str, str] | None = None,
        status: int = 0,
    ) -> str:
        """Run the command of the page that begins so; check that it shows what the page promises."""
        command = page.command(beginning)
        for text in promised:
            page.check_has(text)
        return self.run_text(page, command, *promised, replaced=replaced, status=status)

    def run_text(
        self,
        page: Page,
        command: str,
        *promised: str,
        replaced: Mapping[str, str] | None = None,
        status: int = 0,
    ) -> str:
        """Run a command that the page prints in its text, or that another command printed."""
        own = command
        for printed, value in (replaced or {}).items():
            own = own.replace(printed, value)
        terminal = self._terminal(own)
        try:
            ended = terminal.wait_for_end()
            step = self._note(page, command, terminal)
        finally:
            terminal.close()
        if (ended == 0) != (status == 0) or "Traceback" in step.output:
            raise CommandFailedError(f"{page.name}: {command} ended with {ended}:\n{step.output}")
        check_shows(page, command, step.output, promised)
        if self._last.exists():
            self.folder = Path(self._last.read_text(encoding="utf-8").strip())
        return step.output

    @contextmanager
    def interact(self, page: Page, command: str) -> Generator[Terminal]:
        """Run a command that a person types to. The block types what ends it."""
        terminal = self._terminal(command)
        try:
            yield terminal
            ended = terminal.wait_for_end(60)
            self._note(page, command, terminal)
        finally:
            terminal.close()
        if ended:
            raise CommandFailedError(f"{page.name}: {command} ended with {ended}:\n{terminal.text}")

    @contextmanager
    def serve(self, page: Page, command: str, ready: str) -> Generator[Terminal]:
        """Run a server until the end of the block, and end it with Ctrl-C. Its time is until it is ready."""
        terminal = self._terminal(command)
        try:
            terminal.wait_for(ready)
            self._note(page, command, terminal)
            yield terminal
            terminal.type(CTRL_C)
            ended = terminal.wait_for_end(60)
        finally:
            terminal.close()
        if ended:
            raise CommandFailedError(f"{page.name}: {command} ended with {ended} after Ctrl-C:\n{terminal.text}")

    def note_call(self) -> None:
        """Note that a real call was just seen; the first one counts."""
        self.first_call = self.first_call or time.monotonic() - self.began

    def _terminal(self, command: str) -> Terminal:
        if not self.steps:
            self.began = time.monotonic()
        self._last.unlink(missing_ok=True)
        script = f"trap 'pwd >{self._last}' EXIT; {command}"
        return Terminal(script, self.folder, self.environment)

    def _note(self, page: Page, command: str, terminal: Terminal) -> Step:
        seconds = time.monotonic() - terminal.started
        step = Step(page.name, command, seconds, terminal.first_output or seconds, terminal.text)
        self.steps.append(step)
        return step


def check_shows(page: Page, command: str, output: str, promised: tuple[str, ...]) -> None:
    """Raise if the output does not have one of the texts. A narrow terminal may break lines anywhere."""
    flat = "".join(output.split())
    for text in promised:
        if "".join(text.split()) not in flat:
            raise CommandFailedError(f"{page.name}: {command} does not show {text!r}:\n{output}")
