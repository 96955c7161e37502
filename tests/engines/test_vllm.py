"""The vLLM engine against a loopback server: its requests, also to servers without template endpoints."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engines.providers import CannedResponse, generate, json_response, sse
from engines.tools import make_request
from ferrule import ToolChoice
from ferrule.core.call import How
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.engines.vllm import vllm

MODELS = json_response({"data": [{"id": "smol"}]})
TOKENS = json_response({"tokens": [1, 2, 3]})
PROMPT = json_response({"prompt": "<|im_start|>user\nHow is Paris?<|im_end|>\n<|im_start|>assistant\n"})
TEXT = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'


def chunk(text: str, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "text": text, "finish_reason": finish}], **more}


SUNG = sse(chunk("ferrule", "stop"), done=True)
# The tokens of all markers: a tag, two that only the tokenizer knows to be special or not, and letters.
CUT = {"<tool_call>": 7, "Ċ": 4, "[TOOL_CALLS]": 8, "[ARGS]": 9, "CALL": 5, "<|im_end|>": 2}
MARKS = json_response({"tokens": [*CUT.values()], "token_strs": [*CUT]})
SILENT = sse(chunk("", "length"), done=True)
WORD = sse(chunk("[ARGS]", "length"), done=True)
REFUSED = CannedResponse((b'{"error": {"message": "Invalid grammar specification"}}',), status=400)
# The server renders a sample, four inputs of the probe, and the conversation itself.
RENDERED = 6
WRITTEN = sse(chunk(TEXT[:20]), chunk(TEXT[20:], "stop"), {"choices": [], "usage": {"completion_tokens": 9}}, done=True)


def test_the_prompt_is_the_servers_own_and_the_grammar_is_sent_as_a_structural_tag() -> None:
    reply, requests = generate(
        lambda url: vllm(url, TextOptions(format="hermes")),
        [MODELS, SUNG, TOKENS, *(TOKENS, PROMPT) * RENDERED, WRITTEN],
        make_request(choice=ToolChoice.required()),
    )
    assert reply.calls[0].arguments == {"city": "Paris"}
    body = requests[-1].body
    assert body["prompt"].startswith("<|im_start|>user")
    assert json.loads(body["structured_outputs"]["structural_tag"])["type"] == "structural_tag"
    assert body["skip_special_tokens"] is False
    assert body["spaces_between_special_tokens"] is False


def test_a_server_on_guidance_refuses_the_tag_and_gets_the_grammar_as_lark() -> None:
    reply, requests = generate(
        lambda url: vllm(url, TextOptions(format="hermes", skips=False)),
        [MODELS, REFUSED, SUNG, MARKS, SILENT, WORD, SILENT, TOKENS, *(TOKENS, PROMPT) * RENDERED, WRITTEN],
        make_request(choice=ToolChoice.required()),
    )
    receipt = reply.calls[0].receipt
    assert receipt is not None
    assert (receipt.how, receipt.path) == (How.GRAMMAR, "completion+lark")
    grammar = requests[-1].body["structured_outputs"]["grammar"]
    assert grammar.startswith("start: ")
    # Special tokens are named, not spelled: llguidance would stop where it forces one and reads letters.
    assert "<[7]>" in grammar
    assert '"<tool_call>' not in grammar
    assert "(<[2]>)?" in grammar
    probe_bodies = [
        request_sent.body
        for request_sent in requests
        if request_sent.body and request_sent.body.get("skip_special_tokens")
    ]
    assert [body["structured_outputs"]["grammar"] for body in probe_bodies] == ["start: <[8]>\n", "start: <[9]>\n"]


@pytest.mark.parametrize("answer, max_stops", [(REFUSED, 4), (SILENT, 256)])
def test_a_server_on_guidance_is_tested_for_many_stops(answer: CannedResponse, max_stops: int) -> None:
    engines: list[TextEngine] = []

    def make_engine(url: str) -> TextEngine:
        engines.append(vllm(url, TextOptions(format="hermes", skips=False)))
        return engines[0]

    _, requests = generate(
        make_engine,
        [MODELS, REFUSED, SUNG, MARKS, SILENT, WORD, answer, TOKENS, *(TOKENS, PROMPT) * RENDERED, WRITTEN],
        make_request(choice=ToolChoice.required()),
    )
    assert engines[0].traits.max_stops == max_stops
    assert (
        max(
            len(request_sent.body["stop"])
            for request_sent in requests
            if request_sent.body and request_sent.body.get("stop")
        )
        == 256
    )


@pytest.mark.parametrize("tokenizer_response", [json_response({"tokens": [1, 2]}), REFUSED])
def test_a_server_on_guidance_without_a_tokenizer_api_gets_no_grammar(tokenizer_response: CannedResponse) -> None:
    reply, requests = generate(
        lambda url: vllm(url, TextOptions(format="hermes")),
        [MODELS, REFUSED, SUNG, tokenizer_response, TOKENS, *(TOKENS, PROMPT) * RENDERED, WRITTEN],
        make_request(choice=ToolChoice.auto()),
    )
    receipt = reply.calls[0].receipt
    assert receipt is not None
    assert receipt.how is How.VALIDATED
    assert "structured_outputs" not in requests[-1].body


def test_a_server_that_enforces_no_grammar_gets_none_and_no_receipt_claims_one() -> None:
    no_word = sse(chunk("no", "stop"), done=True)
    reply, requests = generate(
        lambda url: vllm(url, TextOptions(format="hermes")),
        [MODELS, no_word, no_word, TOKENS, *(TOKENS, PROMPT) * RENDERED, WRITTEN],
        make_request(choice=ToolChoice.auto()),
    )
    receipt = reply.calls[0].receipt
    assert receipt is not None
    assert receipt.how is How.VALIDATED
    assert "structured_outputs" not in requests[-1].body


def test_the_template_endpoint_gets_arguments_as_json_text() -> None:
    _, requests = generate(
        lambda url: vllm(url, TextOptions(format="hermes")),
        [MODELS, SUNG, TOKENS, *(TOKENS, PROMPT) * RENDERED, WRITTEN],
        make_request(choice=ToolChoice.required()),
    )
    messages = [
        message
        for request_sent in requests
        if request_sent.path == "/tokenize"
        for message in request_sent.body["messages"]
    ]
    arguments = [call["function"]["arguments"] for message in messages for call in message.get("tool_calls", ())]
    assert {type(text) for text in arguments} == {str}
    assert {"city": "Rome"} in [json.loads(text) for text in arguments]


def test_a_server_without_a_template_endpoint_gets_chatml_and_the_receipt_says_so() -> None:
    reply, requests = generate(
        lambda url: vllm(url, TextOptions(format="hermes")),
        [MODELS, SUNG, CannedResponse((b'{"detail": "Not Found"}',), status=404), WRITTEN],
        make_request(choice=ToolChoice.required()),
    )
    receipt = reply.calls[0].receipt
    assert receipt is not None
    assert any("ChatML" in note for note in receipt.notes)
    assert [request_sent.path for request_sent in requests] == [
        "/v1/models",
        "/v1/completions",
        "/tokenize",
        "/v1/completions",
    ]
