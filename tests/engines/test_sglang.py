"""SGLang's own API, by answers in the shape that its sources give them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engines.providers import QUICK, Answer, Asked, generated, sse, whole
from engines.tools import PLAIN_TEMPLATE, asked
from ferrule import FinishReason, Reply, ToolCallRequest, ToolChoice, Usage
from ferrule.core.receipt import How
from ferrule.engines.sglang import sglang
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.errors import EngineError, UnsupportedError

PARIS = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}\n</tool_call>'
MODEL = {"model_path": "org/model", "tokenizer_path": "org/model", "is_generation": True}
SERVER = {"grammar_backend": "xgrammar", "incremental_streaming_output": False, "version": "0.5.23"}
STOPPED = {"type": "stop", "matched": 2}
HERMES = TextOptions(format="hermes")


def on(options: TextOptions = HERMES, checkpoint: Path | None = None) -> Callable[[str], TextEngine]:
    return lambda url: sglang(url, options, checkpoint=checkpoint, deadlines=QUICK)


def wrote(text: str, finish: dict[str, Any] | None = STOPPED, *, is_incremental: bool = False) -> Answer:
    chunks: list[dict[str, Any]] = []
    for count, at in enumerate(range(0, len(text), 5), start=1):
        shown = text[at : at + 5] if is_incremental else text[: at + 5]
        meta = {"id": "r", "finish_reason": None, "prompt_tokens": 30, "completion_tokens": count}
        chunks.append({"text": shown, "output_ids": [count], "meta_info": meta})
    chunks[-1]["meta_info"]["finish_reason"] = finish
    return sse(*chunks, done=True)


def spoken(
    *answers: Answer,
    server: dict[str, Any] = SERVER,
    request: ToolCallRequest | None = None,
    make: Callable[[str], TextEngine] | None = None,
) -> tuple[Reply, list[Asked]]:
    return generated(make or on(), [whole(MODEL), whole(server), *answers], request or asked())


@pytest.mark.parametrize("is_incremental", [False, True])
def test_chunks_that_hold_the_whole_text_and_chunks_that_hold_what_is_new_give_the_same_reply(
    is_incremental: bool,
) -> None:
    server = {**SERVER, "incremental_streaming_output": is_incremental}
    text = f"One moment.\n{PARIS}"
    reply, requests = spoken(wrote(text, is_incremental=is_incremental), server=server)
    assert [sent.path for sent in requests] == ["/get_model_info", "/server_info", "/generate"]
    assert reply.text.strip() == "One moment."
    assert reply.calls[0].arguments == {"city": "Paris", "days": 2}
    assert (reply.finish, reply.usage) == (FinishReason.TOOL_CALLS, Usage(30, -(-len(text) // 5)))


def test_the_rule_goes_as_a_structural_tag_and_the_marks_come_back_whole() -> None:
    reply, requests = spoken(wrote(PARIS), request=asked(choice=ToolChoice.required()))
    sampling = requests[-1].body["sampling_params"]
    assert requests[-1].body["stream"] is True
    assert json.loads(sampling["structural_tag"])["type"] == "structural_tag"
    assert (sampling["max_new_tokens"], sampling["skip_special_tokens"]) == (512, False)
    receipt = reply.calls[0].receipt
    assert receipt is not None
    assert (receipt.how, receipt.path) == (How.GRAMMAR, "completion+structural_tag")


def test_without_a_checkpoint_the_prompt_is_chatml_and_the_receipt_says_so() -> None:
    reply, requests = spoken(wrote(PARIS))
    assert requests[-1].body["text"].startswith("<|im_start|>system")
    receipt = reply.calls[0].receipt
    assert receipt is not None
    assert any("ChatML" in note for note in receipt.notes)


def test_a_checkpoints_template_writes_the_prompt(tmp_path: Path) -> None:
    template = tmp_path / "chat.jinja"
    template.write_text(PLAIN_TEMPLATE.replace("im_start", "turn"), encoding="utf-8")
    _, requests = spoken(wrote("Hello."), make=on(checkpoint=template), request=asked(tools=()))
    assert requests[-1].body["text"] == "<|turn|>user\nHow is Paris?<|im_end|>\n<|turn|>assistant\n"


def test_running_out_of_tokens_is_told() -> None:
    reply, _ = spoken(wrote(PARIS[:60], {"type": "length", "length": 512}))
    assert (reply.calls, reply.finish) == ((), FinishReason.LENGTH)


def test_a_server_with_another_grammar_backend_cannot_be_held_to_a_choice() -> None:
    server = {**SERVER, "grammar_backend": "outlines"}
    with pytest.raises(UnsupportedError):
        spoken(server=server, request=asked(choice=ToolChoice.required()))
    reply, requests = spoken(wrote(PARIS), server=server)
    assert "structural_tag" not in requests[-1].body["sampling_params"]
    receipt = reply.calls[0].receipt
    assert receipt is not None
    assert receipt.how is How.VALIDATED


@pytest.mark.parametrize(
    "answer",
    [sse({"error": {"message": "too long"}}), wrote("x", {"type": "abort", "message": "too long"})],
)
def test_an_engine_that_gives_up_is_told(answer: Answer) -> None:
    with pytest.raises(EngineError, match="too long"):
        spoken(answer)
