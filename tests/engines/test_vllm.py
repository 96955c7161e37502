"""vLLM's text engine against a loopback provider: how it asks, also where its template cannot be asked for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engines.providers import Answer, generated, sse, whole
from engines.tools import asked
from ferrule import ToolChoice
from ferrule.core.receipt import How
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.engines.vllm import vllm

MODELS = whole({"data": [{"id": "smol"}]})
TOKENS = whole({"tokens": [1, 2, 3]})
PROMPT = whole({"prompt": "<|im_start|>user\nHow is Paris?<|im_end|>\n<|im_start|>assistant\n"})
TEXT = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'


def chunk(text: str, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "text": text, "finish_reason": finish}], **more}


SUNG = sse(chunk("ferrule", "stop"), done=True)
# The tokens of all marks together: a tag, two that only the tokenizer can tell apart, and letters.
CUT = {"<tool_call>": 7, "Ċ": 4, "[TOOL_CALLS]": 8, "[ARGS]": 9, "CALL": 5, "<|im_end|>": 2}
MARKS = whole({"tokens": [*CUT.values()], "token_strs": [*CUT]})
SILENT = sse(chunk("", "length"), done=True)
WORD = sse(chunk("[ARGS]", "length"), done=True)
REFUSED = Answer((b'{"error": {"message": "Invalid grammar specification"}}',), status=400)
# The engine renders a sample, four questions of the probe, and the conversation itself.
RENDERED = 6
WRITTEN = sse(chunk(TEXT[:20]), chunk(TEXT[20:], "stop"), {"choices": [], "usage": {"completion_tokens": 9}}, done=True)


def test_the_prompt_is_the_engines_own_and_the_rule_travels_as_a_structural_tag() -> None:
    reply, sent = generated(
        lambda url: vllm(url, TextOptions(format="hermes")),
        [MODELS, SUNG, TOKENS, *(TOKENS, PROMPT) * RENDERED, WRITTEN],
        asked(choice=ToolChoice.required()),
    )
    assert reply.calls[0].arguments == {"city": "Paris"}
    body = sent[-1].body
    assert body["prompt"].startswith("<|im_start|>user")
    assert json.loads(body["structured_outputs"]["structural_tag"])["type"] == "structural_tag"
    assert body["skip_special_tokens"] is False
    assert body["spaces_between_special_tokens"] is False


def test_a_server_on_guidance_refuses_the_tag_and_gets_the_rule_as_lark() -> None:
    reply, sent = generated(
        lambda url: vllm(url, TextOptions(format="hermes", skips=False)),
        [MODELS, REFUSED, SUNG, MARKS, SILENT, WORD, SILENT, TOKENS, *(TOKENS, PROMPT) * RENDERED, WRITTEN],
        asked(choice=ToolChoice.required()),
    )
    receipt = reply.calls[0].receipt
    assert receipt is not None
    assert (receipt.how, receipt.path) == (How.GRAMMAR, "completion+lark")
    grammar = sent[-1].body["structured_outputs"]["grammar"]
    assert grammar.startswith("start: ")
    # Its own tokens are named and not spelled: llguidance would break off where it forces one and reads letters.
    assert "<[7]>" in grammar
    assert '"<tool_call>' not in grammar
    assert "(<[2]>)?" in grammar
    left_out = [one.body for one in sent if one.body and one.body.get("skip_special_tokens")]
    assert [body["structured_outputs"]["grammar"] for body in left_out] == ["start: <[8]>\n", "start: <[9]>\n"]


@pytest.mark.parametrize("answer, most", [(REFUSED, 4), (SILENT, 256)])
def test_a_server_on_guidance_is_asked_whether_it_takes_many_stops(answer: Answer, most: int) -> None:
    engines: list[TextEngine] = []

    def opened(url: str) -> TextEngine:
        engines.append(vllm(url, TextOptions(format="hermes", skips=False)))
        return engines[0]

    _, sent = generated(
        opened,
        [MODELS, REFUSED, SUNG, MARKS, SILENT, WORD, answer, TOKENS, *(TOKENS, PROMPT) * RENDERED, WRITTEN],
        asked(choice=ToolChoice.required()),
    )
    assert engines[0].traits.stops == most
    assert max(len(one.body["stop"]) for one in sent if one.body and one.body.get("stop")) == 256


@pytest.mark.parametrize("untold", [whole({"tokens": [1, 2]}), REFUSED])
def test_a_server_on_guidance_whose_tokenizer_tells_nothing_is_not_held(untold: Answer) -> None:
    reply, sent = generated(
        lambda url: vllm(url, TextOptions(format="hermes")),
        [MODELS, REFUSED, SUNG, untold, TOKENS, *(TOKENS, PROMPT) * RENDERED, WRITTEN],
        asked(choice=ToolChoice.auto()),
    )
    receipt = reply.calls[0].receipt
    assert receipt is not None
    assert receipt.how is How.VALIDATED
    assert "structured_outputs" not in sent[-1].body


def test_a_server_that_is_held_by_no_grammar_is_asked_without_one_and_no_receipt_claims_one() -> None:
    silent = sse(chunk("no", "stop"), done=True)
    reply, sent = generated(
        lambda url: vllm(url, TextOptions(format="hermes")),
        [MODELS, silent, silent, TOKENS, *(TOKENS, PROMPT) * RENDERED, WRITTEN],
        asked(choice=ToolChoice.auto()),
    )
    receipt = reply.calls[0].receipt
    assert receipt is not None
    assert receipt.how is How.VALIDATED
    assert "structured_outputs" not in sent[-1].body


def test_the_template_is_asked_about_calls_with_their_arguments_as_json_text() -> None:
    _, sent = generated(
        lambda url: vllm(url, TextOptions(format="hermes")),
        [MODELS, SUNG, TOKENS, *(TOKENS, PROMPT) * RENDERED, WRITTEN],
        asked(choice=ToolChoice.required()),
    )
    messages = [message for one in sent if one.path == "/tokenize" for message in one.body["messages"]]
    arguments = [call["function"]["arguments"] for message in messages for call in message.get("tool_calls", ())]
    assert {type(text) for text in arguments} == {str}
    assert {"city": "Rome"} in [json.loads(text) for text in arguments]


def test_a_server_that_cannot_be_asked_for_its_template_gets_chatml_and_the_receipt_says_so() -> None:
    reply, sent = generated(
        lambda url: vllm(url, TextOptions(format="hermes")),
        [MODELS, SUNG, Answer((b'{"detail": "Not Found"}',), status=404), WRITTEN],
        asked(choice=ToolChoice.required()),
    )
    receipt = reply.calls[0].receipt
    assert receipt is not None
    assert any("ChatML" in note for note in receipt.notes)
    assert [one.path for one in sent] == ["/v1/models", "/v1/completions", "/tokenize", "/v1/completions"]
