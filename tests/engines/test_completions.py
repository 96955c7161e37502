"""What chunks of a completion tell, whoever sent them."""

from typing import Any

from ferrule.engines.completions import Reading
from ferrule.engines.generator import Ended, Piece, Writing
from ferrule.engines.llama_body import streaming_body


def choice(text: str, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"index": 0, "text": text, "finish_reason": finish, **more}


def test_vllm_tells_tokens_of_the_choice() -> None:
    reading = Reading()
    assert reading.pieces({"choices": [choice(" Par", token_ids=[5, 6])]}) == [Piece(" Par", 2, ids=(5, 6))]
    # A token that the beginning of a stop may stand in has no text yet.
    assert reading.pieces({"choices": [choice("", token_ids=[7])]}) == [Piece("", 1, ids=(7,))]
    reading.pieces({"choices": [choice("is", "stop", token_ids=[8], stop_reason='",')]})
    reading.pieces({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}})
    assert reading.ended == Ended(False, 3, 4, stopped_by='",')


def test_llama_cpp_tells_tokens_where_it_was_asked_to_be_verbose() -> None:
    reading = Reading()
    told = {"choices": [choice("Par")], "__verbose": {"content": "Par", "tokens": [5]}}
    assert reading.pieces(told) == [Piece("Par", 1, ids=(5,))]
    last = {"choices": [choice("", "stop")], "__verbose": {"tokens": [], "stopping_word": '"'}}
    assert reading.pieces(last) == []
    assert reading.ended == Ended(False, stopped_by='"')


def test_a_server_that_tells_no_tokens_gives_text_alone() -> None:
    assert Reading().pieces({"choices": [choice("Par")]}) == [Piece("Par")]


def test_a_prompt_is_sent_as_its_tokens_where_they_are_known() -> None:
    asked = Writing(prompt="Say", max_tokens=1)
    assert streaming_body(asked)["prompt"] == "Say"
    assert streaming_body(Writing(prompt="Say", tokens=(4, 2), max_tokens=1))["prompt"] == [4, 2]
