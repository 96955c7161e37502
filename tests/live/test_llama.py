"""llama.cpp as a library: its loopback port needs a key, and its token counts match the prompts."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from ferrule import ChatMessage, EngineError, ToolCallRequest, load_engine
from ferrule.engines.llama import LlamaGenerator, facts_of_file
from lab.paths import ROOT
from lab.servers import MODEL
from live.model import generator, smol
from waiting import PATIENCE, eventually

pytestmark = pytest.mark.live


@pytest.mark.parametrize("path", ["/completion", "/v1/chat/completions", "/tokenize", "/slots"])
def test_requests_without_the_key_are_refused(path: str) -> None:
    address = generator()._server.listening_address
    request = urllib.request.Request(address + path, json.dumps({"prompt": "x"}).encode(), method="POST")
    with pytest.raises(urllib.error.HTTPError) as refusal:
        urllib.request.urlopen(request, timeout=10)
    with refusal.value:
        assert refusal.value.code == 401


def test_counted_tokens_are_the_tokens_that_are_read() -> None:
    request = ToolCallRequest(messages=(ChatMessage.user("Où est la gare? <|im_end|> 駅"),), max_tokens=1)
    engine = smol()

    async def both() -> tuple[int, int | None]:
        reply = await engine.generate_with_tools(request)
        return await engine.count_tokens(request), reply.usage and reply.usage.prompt_tokens

    count, prompt_tokens = asyncio.run(both())
    assert count == prompt_tokens


def test_a_context_larger_than_the_model_was_trained_on_is_not_promised() -> None:
    assert facts_of_file(MODEL).context == 8192
    assert asyncio.run(generator().facts()).context == 4096
    greedy = LlamaGenerator(MODEL, threads=1, slots=1, context=16_384)
    assert asyncio.run(greedy.facts()).context == 8192


def test_a_closed_engine_frees_its_model_at_once_and_refuses_requests(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    shutil.copy(MODEL, path)

    def is_mapped() -> bool:
        return str(path) in Path("/proc/self/maps").read_text(encoding="utf-8")

    engine = load_engine(f"llama:{path}?threads=1&slots=1&context=512")
    assert engine.ask_sync("Hello!", max_tokens=2).usage is not None
    assert is_mapped()
    engine.close_sync()
    # The thread that generated may hold it for a moment.
    eventually(lambda: not is_mapped())
    with pytest.raises(EngineError, match="closed"):
        engine.ask_sync("Hello!", max_tokens=2)


_OPENED_AND_CLOSED = """
import asyncio
from ferrule.engines.llama import LlamaGenerator
from lab.servers import MODEL

async def open_and_close():
    for _ in range(8):
        await LlamaGenerator(MODEL, 1, 1, 512).close()

asyncio.run(open_and_close())
"""


def test_an_engine_that_is_closed_before_its_first_request_is_closed() -> None:
    """The library's server waited for ever for a thread that had not begun: in a process of its own, as it blocks."""
    subprocess.run(
        [sys.executable, "-c", _OPENED_AND_CLOSED], check=True, cwd=ROOT, timeout=PATIENCE, stderr=subprocess.DEVNULL
    )
