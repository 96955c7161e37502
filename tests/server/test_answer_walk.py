"""How much one streamed tool call passes on its way through the gateway: counts, which no machine's speed changes."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from types import FrameType

from ferrule.server.config.config import Config, EngineConfig, TracesConfig
from ferrule.sources.functions import Functions
from lab.gateway_walk import chat_body, many_tools, scripted_text_engine, walk_call
from server.client import gateway_of

TEXT = "It is sunny."


def test_a_streamed_tool_call_passes_few_generators_and_is_read_once() -> None:
    walk = asyncio.run(walk_call())
    assert walk["chain"] == (
        *("FakeGenerator.generate", "TextEngine.stream_request", "RoutedEngine.stream_request"),
        *("ToolConversation._run_loop", "_encode_events"),
    )
    # One for each of the two replies. The call in the history is parsed once more, to prove that it is rendered right.
    assert (walk["folds"], walk["parsers"]) == (3, 3)
    # When the call is complete, and when it is about to run.
    assert walk["validations"] == 2


def encodings(tools: int) -> Counter[str]:
    """The calls of functions that read or write JSON, in a second request to a gateway with so many tools."""
    counts: Counter[str] = Counter()
    is_on = False

    def profile(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if is_on and event == "call" and code.co_filename.endswith(("core/json_text.py", "schema/admission.py")):
            counts[code.co_qualname] += 1

    async def scenario() -> None:
        nonlocal is_on
        source = Functions(many_tools(tools))
        # Traces are encoded when there is time, not with the request.
        config = Config(engines=(EngineConfig(name="e0", use="e0"),), traces=TracesConfig(days=0))
        async with gateway_of(scripted_text_engine([TEXT] * 2), sources=[source], config=config) as client:
            await client.post("/v1/chat/completions", chat_body("hi"))
            is_on = True
            assert (await client.post("/v1/chat/completions", chat_body("hi"))).status == 200
            is_on = False

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        asyncio.run(scenario())
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return counts


def test_own_tools_are_neither_admitted_nor_encoded_again_with_each_request() -> None:
    assert encodings(300) == encodings(3)
