"""The SDKs that read streams: Python clients in a worker process, Vercel's AI SDK in Node."""

import json
import subprocess
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lab.gateway_clients import client
from lab.paths import CACHE
from lab.sdk_streams.faults import SCHEMA, TOOL
from lab.servers import ServerFailedError

Ask = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Ask for a stream at {"url", "question", "choice", "max_tokens"}; the answer is {"calls", "raised"}."""

_AI_SDK: Final = CACHE / "ai-sdk"
_VENV: Final = "langchain"
"""It has OpenAI's and Anthropic's own clients too."""


@dataclass(frozen=True, slots=True)
class Reader:
    """One way to read a stream: an operation of `clients.stream_readers`, or a provider of the AI SDK."""

    name: str
    operation: str = ""
    provider: str = ""
    is_chat: bool = False
    """Whether it uses the chat API, and can be pointed at an upstream without a gateway."""


READERS: Final[Sequence[Reader]] = (
    Reader("openai, chat chunks", "openai_chunks", is_chat=True),
    Reader("openai, chat.completions.stream", "openai_stream", is_chat=True),
    Reader("openai, responses.stream", "openai_responses"),
    Reader("anthropic, get_final_message", "anthropic_message"),
    Reader("anthropic, message snapshot", "anthropic_snapshot"),
    Reader("anthropic, text_stream", "anthropic_text"),
    Reader("langchain-openai, chat", "langchain_openai", is_chat=True),
    Reader("langchain-openai, Responses", "langchain_responses"),
    Reader("langchain-anthropic", "langchain_anthropic"),
    Reader("ai, openai-compatible", provider="compatible", is_chat=True),
    Reader("ai, openai (Responses)", provider="responses"),
    Reader("ai, anthropic", provider="anthropic"),
)


@contextmanager
def start_readers() -> Generator[Mapping[str, Ask]]:
    """Start the processes; yields a function for each reader, by name."""
    with ExitStack() as stack:
        worker = stack.enter_context(client(_VENV))
        node = stack.enter_context(_ai_sdk())

        def of(reader: Reader) -> Ask:
            if reader.provider:
                return lambda options: node({**options, "provider": reader.provider})
            operation = f"stream_readers.{reader.operation}"
            return lambda options: worker.ask({"op": operation, "given": dict(options)})

        yield {reader.name: of(reader) for reader in READERS}


@contextmanager
def _ai_sdk() -> Generator[Ask]:
    if not (_AI_SDK / "package.json").exists():
        raise ServerFailedError("the AI SDK is not installed", hint="run scripts/setup-clients --npm")
    with tempfile.TemporaryDirectory() as folder:
        tool = Path(folder, "tool.json")
        tool.write_text(json.dumps({"name": TOOL, "schema": SCHEMA}), encoding="utf-8")
        command = ["node", str(Path(__file__).with_name("ai_reader.mjs")), str(_AI_SDK), str(tool)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8") as process:
            assert process.stdin is not None
            assert process.stdout is not None
            requests, answers = process.stdin, process.stdout

            def ask(options: Mapping[str, Any]) -> dict[str, Any]:
                requests.write(json.dumps(options) + "\n")
                requests.flush()
                line = answers.readline()
                if not line:
                    raise ServerFailedError("the AI SDK's process ended")
                return json.loads(line)

            yield ask
            requests.close()
