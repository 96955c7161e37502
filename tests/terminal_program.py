"""A program in a real pseudo-terminal: what a person types, and what the terminal receives."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from bisect import bisect_left
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from waiting import PATIENCE

CTRL_C, CTRL_D, ENTER, ALT_ENTER, UP = "\x03", "\x04", "\r", "\x1b\r", "\x1b[A"
_CURSOR_QUESTION, _CURSOR_ANSWER = b"\x1b[6n", b"\x1b[24;1R"
# Bracketed paste is switched on.
_EDITOR_READY = b"\x1b[?2004h"
# Control sequences, titles and links, and the choice of a character set.
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>])")
# The first terminal that the leader of a session opens becomes its own: only then Ctrl-C is a signal, as in a shell.
_IN_TERMINAL = ("sh", "-c", 'exec "$@" <"$0" >"$0" 2>&1')


class TerminalProgram:
    """What a running program wrote, and its keyboard."""

    def __init__(self, master: int, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.raw = b""
        self._master = master
        self._seen = 0

    @property
    def text(self) -> str:
        """All that was written, without control sequences."""
        return _plain(self.raw)

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def wait_for(self, wanted: str) -> str:
        """Wait until a text is written; return what was written since the last wait, to its end."""
        new = self._wait(lambda new: wanted in _plain(new), wanted)
        # What follows the text may be what is waited for next.
        end = bisect_left(range(len(new)), True, key=lambda end: wanted in _plain(new[:end]))
        return self._take(end)

    def wait_for_prompt(self) -> str:
        """Wait until the line editor takes keys; return what was written since the last wait."""
        new = self._wait(lambda new: _EDITOR_READY in new, "the prompt")
        return self._take(new.index(_EDITOR_READY) + len(_EDITOR_READY))

    def send(self, line: str) -> str:
        """Type a line at the prompt, and wait for the next prompt; return what was written."""
        self.type(line + ENTER)
        return self.wait_for_prompt()

    def _wait(self, is_there: Callable[[bytes], bool], wanted: str) -> bytes:
        give_up = time.monotonic() + PATIENCE
        while not is_there(new := self.raw[self._seen :]):
            if time.monotonic() > give_up or not self._read():
                raise AssertionError(f"{wanted!r} does not come after:\n{_plain(new)}")
        return new

    def _take(self, length: int) -> str:
        new = self.raw[self._seen : self._seen + length]
        self._seen += length
        return _plain(new)

    def wait_for_end(self) -> int:
        give_up = time.monotonic() + PATIENCE
        while self._read():
            assert time.monotonic() < give_up, self.text
        return self.process.wait(PATIENCE)

    def _read(self) -> bool:
        """Read what there is; False at the end."""
        if not select.select([self._master], [], [], 0.5)[0]:
            return self.process.poll() is None
        data = os.read(self._master, 65536)
        self.raw += data
        for _ in range(data.count(_CURSOR_QUESTION)):
            os.write(self._master, _CURSOR_ANSWER)
        return bool(data)


def _plain(data: bytes) -> str:
    return _SEQUENCE.sub("", data.decode("utf-8", "replace")).replace("\r", "")


@contextmanager
def in_terminal(
    command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None, columns: int = 80
) -> Generator[TerminalProgram]:
    """Run a program in a terminal of 24 lines, with its cache below the folder."""
    master, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    unset = ("NO_COLOR", "COLUMNS", "LINES", "FORCE_COLOR")
    own = {name: value for name, value in os.environ.items() if name not in unset}
    process = subprocess.Popen(
        [*_IN_TERMINAL, os.ttyname(other), *command],
        stdin=subprocess.DEVNULL,
        cwd=folder,
        env={**own, "TERM": "xterm-256color", "XDG_CACHE_HOME": str(folder / "cache"), **(environment or {})},
        start_new_session=True,
    )
    try:
        yield TerminalProgram(master, process)
    finally:
        process.kill()
        process.wait()
        os.close(master)
        os.close(other)
