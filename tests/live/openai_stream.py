"""OpenAI's own SDK as a process of its own, whose chunks a test reads one by one, as they come."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.paths import CACHE

_PYTHON = CACHE / "venvs" / "client-openai" / "bin" / "python"
_PROGRAM = Path(__file__).with_name("openai_program.py")


@dataclass(slots=True)
class Streamed:
    """What has come of one stream so far."""

    chunks: Iterator[dict[str, Any]]
    text: str = ""
    finish: str | None = None
    extensions: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """What the gateway reports of its own tools, which the SDK keeps as it is."""
    calls: dict[int, dict[str, str]] = field(default_factory=dict[int, dict[str, str]])
    error: str = ""
    is_over: bool = False

    def next(self) -> bool:
        """Take the next chunk; False if the stream is over."""
        line = next(self.chunks)
        self.error = line.get("error", "")
        self.is_over = "chunk" not in line
        chunk = line.get("chunk", {})
        if chunk.get("ferrule"):
            self.extensions.append(chunk["ferrule"])
        for choice in chunk.get("choices", ()):
            assert self.finish is None, "a chunk came after the last one"
            self.text += choice["delta"].get("content") or ""
            self.finish = choice["finish_reason"]
            for part in choice["delta"].get("tool_calls") or ():
                call = self.calls.setdefault(part["index"], {"id": "", "name": "", "arguments": ""})
                call["id"] += part.get("id") or ""
                call["name"] += part["function"].get("name") or ""
                call["arguments"] += part["function"].get("arguments") or ""
        return not self.is_over

    def until(self, text: str) -> None:
        """Take chunks until the text so far is this one."""
        while self.text != text:
            assert text.startswith(self.text), self.text
            assert self.next(), (self.text, self.error)

    def rest(self) -> Streamed:
        while not self.is_over:
            self.next()
        assert not self.error, self.error
        return self

    def message(self) -> dict[str, Any]:
        """The assistant's message, as a program sends it back."""
        calls = [
            {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
            for _, call in sorted(self.calls.items())
        ]
        return {"role": "assistant", "content": self.text or None, **({"tool_calls": calls} if calls else {})}


@dataclass(frozen=True, slots=True)
class OpenAiProgram:
    process: subprocess.Popen[str]

    def create(self, **fields: Any) -> Streamed:
        """Begin a streamed request."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(fields) + "\n")
        self.process.stdin.flush()
        return Streamed(json.loads(line) for line in self.process.stdout)


@contextmanager
def openai_program(url: str) -> Generator[OpenAiProgram]:
    assert _PYTHON.exists(), "run scripts/setup-clients"
    process = subprocess.Popen(
        [str(_PYTHON), str(_PROGRAM), url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    )
    with process:
        try:
            yield OpenAiProgram(process)
        finally:
            process.kill()
