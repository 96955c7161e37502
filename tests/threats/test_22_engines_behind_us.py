"""Row 22: an engine receives only known fields with values in range, and nothing else that a client sent."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule.dialects.openai_chat.request_encoder import request_body
from ferrule.engines.fake import FakeGenerator
from ferrule.engines.text.engine import TextEngine, TextOptions
from server.client import scripted_engine
from server.keys import bearer
from threats.gateway_fixture import ANN, CHAT, USER, threat_gateway

KNOWN_TO_OTHERS = {
    **{"n_discard": -1, "n_keep": -1, "n_predict": 10**9, "id_slot": -5, "cache_prompt": True, "grammar": "root ::= x"},
    **{"guided_regex": "(a+)+$", "guided_grammar": "x", "guided_decoding_backend": "x", "extra_body": {"x": 1}},
    **{"logit_bias": {"1": 100}, "prompt_logprobs": 10**6, "echo": True, "ignore_eos": True, "min_tokens": 10**9},
    **{"lora": [{"id": 0}], "adapter": "../x", "kv_transfer_params": {"do_remote_prefill": True}, "priority": -1},
    **{
        "best_of": 10**6,
        "use_beam_search": True,
        "images": ["x"],
        "raw": True,
        "keep_alive": -1,
        "options": {"num_ctx": -1},
    },
    **{"bootstrap_host": "x", "return_hidden_states": True, "custom_logit_processor": "x", "session_params": {}},
}
OUT_OF_RANGE = [
    *({"max_tokens": value} for value in (-1, 0, 1.5, "9", 10**30, True)),
    *({"temperature": value} for value in (-1, "hot", 10**400)),
    *({"top_p": value} for value in (-0.1, 1.1, "x")),
    *({"stop": value} for value in (5, [1], {"a": 1}, ["x"] * 100, ["x" * 2_000])),
    *({"seed": value} for value in ("x", 1.5, 2**70)),
    *({"n": value} for value in (0, 2, 10**9)),
]
OUR_FIELDS = {
    *("messages", "model", "stream", "stream_options", "temperature", "top_p", "seed", "stop", "max_tokens"),
    *("max_completion_tokens", "tools", "tool_choice", "parallel_tool_calls", "response_format"),
}


@settings(max_examples=15)
@given(st.dictionaries(st.sampled_from(sorted(KNOWN_TO_OTHERS)), st.none(), min_size=1))
def test_unknown_fields_reach_no_engine(names: dict[str, None]) -> None:
    def requests_with(more: dict[str, Any]) -> list[Any]:
        async def scenario() -> list[Any]:
            engine = scripted_engine("Hello.")
            async with threat_gateway(engine=engine) as client:
                body = {"model": "e0", "messages": USER, "ferrule": {"tools": "none"}, **more}
                assert (await client.post(CHAT, body, bearer(ANN))).status == 200
            # The names are reported to the client; a callback is no part of what an engine is asked.
            return [asdict(replace(one, ignored=(), on_progress=None, on_prompt=None)) for one in engine.requests]

        return asyncio.run(scenario())

    assert requests_with({name: KNOWN_TO_OTHERS[name] for name in names}) == requests_with({})


def test_a_request_to_a_remote_engine_has_only_known_fields() -> None:
    async def scenario() -> Any:
        engine = scripted_engine("Hello.")
        async with threat_gateway(engine=engine) as client:
            body = {"messages": USER, "temperature": 0.5, "top_p": 0.9, "seed": 3, "stop": ["x"], "max_tokens": 9}
            await client.post(CHAT, {"model": "e0", **body, **KNOWN_TO_OTHERS}, bearer(ANN))
            return engine.requests[0]

    body = request_body(asyncio.run(scenario()), model="small", stream=True)
    assert set(body) <= OUR_FIELDS
    assert (body["temperature"], body["top_p"], body["seed"]) == (0.5, 0.9, 3)


@pytest.mark.parametrize("field", OUT_OF_RANGE, ids=lambda field: f"{field!s:.40}")
def test_a_value_out_of_its_range_is_refused_before_any_engine(field: dict[str, Any]) -> None:
    async def scenario() -> tuple[int, int]:
        generator = FakeGenerator(["Hello."])
        async with threat_gateway(engine=TextEngine(generator, TextOptions(format="hermes"))) as client:
            answer = await client.post(CHAT, {"model": "e0", "messages": USER, **field}, bearer(ANN))
            return answer.status, len(generator.requests)

    status, request_count = asyncio.run(scenario())
    assert status in (400, 413)
    assert request_count == 0
