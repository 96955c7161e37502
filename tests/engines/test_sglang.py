"""The SGLang engine, with responses in the shape of its source code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engines.providers import QUICK, CannedResponse, ReceivedRequest, generate, json_response, sse
from engines.tools import PLAIN_TEMPLATE, make_request
from ferrule import FinishReason, Reply, ToolCallRequest, ToolChoice, Usage
from ferrule.core.call import How
from ferrule.engines.sglang import sglang
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.errors import EngineError, UnsupportedError

PARIS = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}\n</tool_call>'
MODEL = {"model_path": "org/model", "tokenizer_path": "org/model", "is_generation": True}
SERVER = {"grammar_backend": "xgrammar", "incremental_streaming_output": False, "version": "0.5.23"}
STOPPED = {"type": "stop", "matched": 2}
HERMES = TextOptions(format="hermes")


def engine_factory(options: TextOptions = HERMES, checkpoint: Path | None = None) -> Callable[[str], TextEngine]:
    return lambda url: sglang(url, options, checkpoint=checkpoint, deadlines=QUICK)


def text_response(
    text: str, finish: dict[str, Any] | None = STOPPED, *, is_incremental: bool = False
) -> CannedResponse:
    chunks: list[dict[str, Any]] = []
    for count, start in enumerate(range(0, len(text), 5), start=1):
        visible = text[start : start + 5] if is_incremental else text[: start + 5]
        meta_info = {"id": "r", "finish_reason": None, "prompt_tokens": 30, "completion_tokens": count}
        chunks.append({"text": visible, "output_ids": [count], "meta_info": meta_info})
    chunks[-1]["meta_info"]["finish_reason"] = finish
    return sse(*chunks, done=True)


def generate_with(
    *answers: CannedResponse,
    server: dict[str, Any] = SERVER,
    request: ToolCallRequest | None = None,
    make: Callable[[str], TextEngine] | None = None,
) -> tuple[Reply, list[ReceivedRequest]]:
    return generate(
        make or engine_factory(), [json_response(MODEL), json_response(server), *answers], request or make_request()
    )


@pytest.mark.parametrize("is_incremental", [False, True])
def test_cumulative_and_incremental_chunks_give_the_same_reply(
    is_incremental: bool,
) -> None:
    server = {**SERVER, "incremental_streaming_output": is_incremental}
    text = f"One moment.\n{PARIS}"
    reply, requests = generate_with(text_response(text, is_incremental=is_incremental), server=server)
    assert [request_sent.path for request_sent in requests] == ["/get_model_info", "/server_info", "/generate"]
    assert reply.text.strip() == "One moment."
    assert reply.calls[0].arguments == {"city": "Paris", "days": 2}
    assert (reply.finish, reply.usage) == (FinishReason.TOOL_CALLS, Usage(30, -(-len(text) // 5)))


def test_the_grammar_is_sent_as_a_structural_tag_and_markers_are_kept() -> None:
    reply, requests = generate_with(text_response(PARIS), request=make_request(choice=ToolChoice.required()))
    sampling = requests[-1].body["sampling_params"]
    assert requests[-1].body["stream"] is True
    assert json.loads(sampling["structural_tag"])["type"] == "structural_tag"
    assert (sampling["max_new_tokens"], sampling["skip_special_tokens"]) == (512, False)
    receipt = reply.calls[0].receipt
    assert receipt is not None
    assert (receipt.how, receipt.path) == (How.GRAMMAR, "completion+structural_tag")


def test_without_a_checkpoint_the_prompt_is_chatml_and_the_receipt_says_so() -> None:
    reply, requests = generate_with(text_response(PARIS))
    assert requests[-1].body["text"].startswith("<|im_start|>system")
    receipt = reply.calls[0].receipt
    assert receipt is not None
    assert any("ChatML" in note for note in receipt.notes)


def test_a_checkpoints_template_writes_the_prompt(tmp_path: Path) -> None:
    template = tmp_path / "chat.jinja"
    template.write_text(PLAIN_TEMPLATE.replace("im_start", "turn"), encoding="utf-8")
    _, requests = generate_with(
        text_response("Hello."), make=engine_factory(checkpoint=template), request=make_request(tools=())
    )
    assert requests[-1].body["text"] == "<|turn|>user\nHow is Paris?<|im_end|>\n<|turn|>assistant\n"


def test_running_out_of_tokens_is_reported() -> None:
    reply, _ = generate_with(text_response(PARIS[:60], {"type": "length", "length": 512}))
    assert (reply.calls, reply.finish) == ((), FinishReason.LENGTH)


def test_a_server_with_another_grammar_backend_cannot_enforce_a_choice() -> None:
    server = {**SERVER, "grammar_backend": "outlines"}
    with pytest.raises(UnsupportedError):
        generate_with(server=server, request=make_request(choice=ToolChoice.required()))
    reply, requests = generate_with(text_response(PARIS), server=server)
    assert "structural_tag" not in requests[-1].body["sampling_params"]
    receipt = reply.calls[0].receipt
    assert receipt is not None
    assert receipt.how is How.VALIDATED


@pytest.mark.parametrize(
    "answer",
    [sse({"error": {"message": "too long"}}), text_response("x", {"type": "abort", "message": "too long"})],
)
def test_an_engine_that_aborts_is_an_error(answer: CannedResponse) -> None:
    with pytest.raises(EngineError, match="too long"):
        generate_with(answer)
