"""A terminal of 80 columns in which a command runs: what it shows and when, and a keyboard."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Condition, Thread
from typing import Final

from ferrule.errors import FerruleError

COLUMNS: Final = 80
CTRL_C: Final = "\x03"
CTRL_D: Final = "\x04"
ENTER: Final = "\r"
_CURSOR_QUESTION, _CURSOR_ANSWER = b"\x1b[6n", b"\x1b[24;1R"
_SEQUENCE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>78])")
# The first terminal that the leader of a session opens becomes its own: only then Ctrl-C is a signal, as in a shell.
_IN_TERMINAL: Final = ("sh", "-c", 'exec "$@" <"$0" >"$0" 2>&1')


class CommandFailedError(FerruleError):
    """A command of a page failed, or did not show what the page promises."""

    code = "bench_path_broken"


class Terminal:
    """A running command. A thread reads what it writes, so a server is never blocked by a full buffer."""

    def __init__(self, command: str, folder: Path, environment: Mapping[str, str]) -> None:
        self.command = command
        self.started = time.monotonic()
        self.first_output = 0.0
        """Seconds until the first visible character."""
        self._raw = b""
        self._position = 0
        self._changed = Condition()
        self._master, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
        self.process = subprocess.Popen(
            [*_IN_TERMINAL, os.ttyname(other), "bash", "-c", command],
            stdin=subprocess.DEVNULL,
            cwd=folder,
            env={**environment, "TERM": "xterm-256color"},
            start_new_session=True,
        )
        self._other = other
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def text(self) -> str:
        """All that was written, without control sequences."""
        return _plain(self._raw)

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def wait_for(self, wanted: str, seconds: float = 180) -> str:
        """Wait until a text is written; return what was written since the last wait, to its end."""
        with self._changed:
            if not self._changed.wait_for(lambda: wanted in self._new() or self._has_ended(), seconds):
                raise CommandFailedError(f"{self.command}: {wanted!r} does not come after:\n{self._new()}")
            new = self._new()
            if wanted not in new:
                raise CommandFailedError(f"{self.command} ended without {wanted!r}:\n{self.text}")
            # What follows the text may be what is waited for next.
            raw = self._raw[self._position :]
            end = bisect_left(range(len(raw)), True, key=lambda end: wanted in _plain(raw[:end]))
            self._position += end
        return _plain(raw[:end])

    def wait_for_end(self, seconds: float = 300) -> int:
        """Wait for the end of the command; return its exit status."""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise CommandFailedError(f"{self.command} did not end:\n{self.text}") from None
        self._drain()
        return status

    def close(self) -> None:
        """End the command and all that it started, and close the terminal."""
        for sign in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, sign)
                self.process.wait(10)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue
        self._drain()
        os.close(self._master)

    def _drain(self) -> None:
        """Read to the end: there is one when nobody has the other side open."""
        if self._other >= 0:
            os.close(self._other)
            self._other = -1
        self._reader.join(5)

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 65536)
            except OSError:
                # The other side was closed.
                data = b""
            with self._changed:
                self._raw += data
                if not self.first_output and _plain(self._raw).strip():
                    self.first_output = time.monotonic() - self.started
                self._changed.notify_all()
            for _ in range(data.count(_CURSOR_QUESTION)):
                os.write(self._master, _CURSOR_ANSWER)
            if not data:
                return

    def _new(self) -> str:
        return _plain(self._raw[self._position :])

    def _has_ended(self) -> bool:
        return self.process.poll() is not None


def wait_until(is_true: Callable[[], bool], what: str, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > until:
            raise CommandFailedError(f"{what} did not happen in {seconds:.0f} seconds")
        time.sleep(0.2)


def _plain(data: bytes) -> str:
    return _SEQUENCE.sub("", data.decode("utf-8", "replace")).replace("\r", "")
