"""Decoding the chunks of a completion from each kind of server."""

from typing import Any

from ferrule.engines.completions import CompletionDecoder
from ferrule.engines.generator import CompletionEnd, CompletionRequest, Piece
from ferrule.engines.llama_body import completion_body


def choice(text: str, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"index": 0, "text": text, "finish_reason": finish, **more}


def test_vllm_reports_tokens_in_the_choice() -> None:
    decoder = CompletionDecoder()
    assert decoder.decode({"choices": [choice(" Par", token_ids=[5, 6])]}) == [Piece(" Par", 2, token_ids=(5, 6))]
    # A token that may contain the beginning of a stop has no text yet.
    assert decoder.decode({"choices": [choice("", token_ids=[7])]}) == [Piece("", 1, token_ids=(7,))]
    decoder.decode({"choices": [choice("is", "stop", token_ids=[8], stop_reason='",')]})
    decoder.decode({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}})
    assert decoder.end == CompletionEnd(False, 3, 4, matched_stop='",')


def test_llama_cpp_reports_tokens_in_verbose_responses() -> None:
    decoder = CompletionDecoder()
    chunk = {"choices": [choice("Par")], "__verbose": {"content": "Par", "tokens": [5]}}
    assert decoder.decode(chunk) == [Piece("Par", 1, token_ids=(5,))]
    last = {"choices": [choice("", "stop")], "__verbose": {"tokens": [], "stopping_word": '"'}}
    assert decoder.decode(last) == []
    assert decoder.end == CompletionEnd(False, matched_stop='"')


def test_a_report_of_progress_is_no_token() -> None:
    """llama.cpp adds an empty text and a token 0. Skipping counted that token, and models then chose otherwise."""
    reports: list[None] = []
    decoder = CompletionDecoder(lambda: reports.append(None))
    verbose = {"content": "", "tokens": [0], "tokens_predicted": 0}
    for processed in (0, 512, 512, 700):
        progress = {"total": 700, "cache": 0, "processed": processed, "time_ms": 1}
        assert decoder.decode({"choices": [choice("")], "__verbose": verbose, "prompt_progress": progress}) == []
    assert len(reports) == 3
    assert decoder.end is None


def test_a_server_that_reports_no_tokens_gives_only_text() -> None:
    assert CompletionDecoder().decode({"choices": [choice("Par")]}) == [Piece("Par")]


def test_a_prompt_is_sent_as_its_tokens_where_they_are_known() -> None:
    request = CompletionRequest(prompt="Say", max_tokens=1)
    assert completion_body(request)["prompt"] == "Say"
    assert completion_body(CompletionRequest(prompt="Say", tokens=(4, 2), max_tokens=1))["prompt"] == [4, 2]
