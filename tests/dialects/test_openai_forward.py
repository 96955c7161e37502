"""Text completions and embeddings: only known fields are forwarded, and a stream is passed on byte for byte."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import DefinitionError, EngineError
from ferrule.core.event import Finish, FinishReason, Usage
from ferrule.core.forward import ForwardedPart, ForwardRequest
from ferrule.dialects.openai_forward import ForwardedStream, read_completion, read_embeddings, whole_part
from ferrule.dialects.sse import SseSplitter

USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}}
END = FinishReason.STOP, Usage(3, 2, 1)


def chunk(text: str, reason: str | None = None, index: int = 0, **more: Any) -> str:
    return json.dumps({"choices": [{"text": text, "index": index, "finish_reason": reason}], **more})


def stream_of(*data: str, end: str = "\n\n", done: bool = True) -> bytes:
    messages = [*data, *(["[DONE]"] if done else [])]
    return "".join(f"data: {one}{end}" for one in messages).encode()


def read_stream(*pieces: bytes, request: ForwardRequest | None = None) -> list[ForwardedPart]:
    stream = ForwardedStream(request or read_completion({"prompt": "p", "stream": True}))
    return [part for piece in pieces for part in stream.feed(piece)] + stream.close()


WHOLE = ("é😀", "b", "")
STREAMS = [
    b": ping\n\n" + stream_of(chunk("é😀"), chunk("", "stop", usage=USAGE), end=end)
    for end in ("\n\n", "\r\n\r\n", "\r\r")
]


@given(st.sampled_from(STREAMS), st.lists(st.integers(0, 300)))
def test_any_cut_of_a_stream_is_passed_on_byte_for_byte(data: bytes, cuts: list[int]) -> None:
    places = sorted({0, *(cut for cut in cuts if cut < len(data)), len(data)})
    parts = read_stream(*(data[start:end] for start, end in pairwise(places)))
    # The second byte of a line end that is cut in two belongs to an event that never comes.
    assert b"".join(part.data for part in parts).rstrip(b"\r\n") == data.rstrip(b"\r\n")
    assert [part.finish for part in parts if part.finish] == [Finish(*END)]


@given(st.binary(), st.lists(st.integers(0, 60)))
def test_a_split_changes_no_byte(data: bytes, cuts: list[int]) -> None:
    splitter = SseSplitter()
    places = sorted({0, *(cut for cut in cuts if cut < len(data)), len(data)})
    parts = [part for start, end in pairwise(places) for part in splitter.feed(data[start:end])]
    assert b"".join(parts) + splitter.close() == data


def test_an_event_leaves_as_soon_as_it_is_whole_and_not_before() -> None:
    stream = ForwardedStream(read_completion({"prompt": "p", "stream": True}))
    data = stream_of(chunk("a"), done=False)
    assert list(stream.feed(data[:-1])) == []
    assert list(stream.feed(data[-1:])) == [ForwardedPart(data)]


def test_a_flood_without_an_end_is_stopped() -> None:
    splitter = SseSplitter(max_message=100)
    with pytest.raises(EngineError, match="longer than 100 bytes"):
        splitter.feed(b"data: " + b"x" * 200)


@pytest.mark.parametrize(
    "data", [b"", stream_of(chunk("a"), done=False), stream_of(chunk("a", "stop"), done=False)[:-9]]
)
def test_a_stream_that_ends_in_the_middle_is_an_error(data: bytes) -> None:
    with pytest.raises(EngineError):
        read_stream(data)


def test_a_stream_of_several_answers_has_ended_when_each_has() -> None:
    request = read_completion({"prompt": ["p", "q"], "n": 2, "best_of": 3, "stream": True})
    assert request.answers == 6
    ends = [chunk("", "stop", index=at) for at in range(4)]
    with pytest.raises(EngineError, match="ended before"):
        read_stream(stream_of(*ends[:3], done=False), request=request)
    assert read_stream(stream_of(*ends, done=False), request=request)[-1].data == b"data: [DONE]\n\n"


@pytest.mark.parametrize("ending", ["", "\n", "\n\n"])
def test_an_end_that_the_engine_leaves_out_is_added(ending: str) -> None:
    data = stream_of(chunk("a", "length"), done=False).rstrip() + ending.encode()
    parts = read_stream(data)
    joined = b"".join(part.data for part in parts)
    assert joined.startswith(data)
    assert joined.endswith(b"}\n\ndata: [DONE]\n\n") or joined.endswith(b"}\n\n\ndata: [DONE]\n\n")
    assert parts[-1].finish == Finish(FinishReason.LENGTH)


def test_nothing_follows_the_end() -> None:
    assert read_stream(stream_of(chunk("a", "stop")) + b"data: more\n\n")[-1].data == b"data: [DONE]\n\n"


@pytest.mark.parametrize("error", ["the key sk-1 is wrong", {"message": "the key sk-1 is wrong"}])
def test_an_error_inside_is_raised_and_not_passed_on(error: Any) -> None:
    stream = ForwardedStream(read_completion({"prompt": "p", "stream": True}))
    with pytest.raises(EngineError, match="sk-1") as raised:
        list(stream.feed(stream_of(json.dumps({"error": error}))))
    assert raised.value.code == "engine_refused"
    with pytest.raises(EngineError):
        whole_part(json.dumps({"error": error}).encode())


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"\xff", b"[" * 9999])
def test_what_is_no_json_object_is_no_answer(body: bytes) -> None:
    with pytest.raises(EngineError, match="did not answer with"):
        whole_part(body)


def test_a_whole_answer_stays_as_it_is() -> None:
    body = ('{ "choices" : [{"text": "é", "finish_reason": "stop"}], "usage": ' + json.dumps(USAGE) + " }\n").encode()
    assert whole_part(body) == ForwardedPart(body)
    assert whole_part(body).finish == Finish(*END)


def test_only_known_fields_are_forwarded_and_the_others_are_reported() -> None:
    more = {"n_predict": -1, "grammar": "root ::= x", "prompt_embeds": "gAAA", "lora": [], "id_slot": 1}
    request = read_completion({"prompt": "p", "model": "m", "user": "ann", "temperature": 0.5, "seed": None, **more})
    assert request.fields == {"prompt": "p", "temperature": 0.5, "max_tokens": 16}
    assert set(request.ignored) == set(more)
    embeddings = read_embeddings({"input": ["a", "b"], "encoding_format": "base64", "user": "ann", "zz": 1})
    assert embeddings.fields == {"input": ["a", "b"], "encoding_format": "base64"}
    assert embeddings.ignored == ("zz",)


@pytest.mark.parametrize("prompt", ["p", ["p", "q"], [1, 2], [[1, 2], [3]]])
def test_a_prompt_is_text_or_tokens_once_or_several_times(prompt: Any) -> None:
    assert read_completion({"prompt": prompt}).fields["prompt"] == prompt
    assert read_embeddings({"input": prompt}).fields["input"] == prompt


@pytest.mark.parametrize(
    "prompt", [None, [], [[]], ["a", 1], [1, "a"], [[1], "a"], [-1], [1.5], {"a": 1}, True, [True]]
)
def test_any_other_prompt_is_refused_by_its_place(prompt: Any) -> None:
    with pytest.raises(DefinitionError, match=r"^prompt") as refusal:
        read_completion({"prompt": prompt})
    assert refusal.value.param.startswith("prompt")


@pytest.mark.parametrize(
    "prompt, place",
    [
        ([1, 2.0], "prompt[1]"),
        ([1, True], "prompt[1]"),
        (["a", None], "prompt[1]"),
        ([[1], [2, -1]], "prompt[1][1]"),
        ([[1], []], "prompt[1]"),
        ([[1], 2], "prompt[1]"),
    ],
)
def test_a_faulty_entry_is_named_by_its_place(prompt: Any, place: str) -> None:
    with pytest.raises(DefinitionError) as refusal:
        read_completion({"prompt": prompt})
    assert refusal.value.param == place


@pytest.mark.parametrize(
    "fields",
    [
        {"max_tokens": 0},
        {"max_tokens": -1},
        {"n": 0},
        {"n": 1000},
        {"best_of": 129},
        {"temperature": 3},
        {"top_p": 2},
        {"logprobs": 99},
        {"logit_bias": {"1": 1000}},
        {"logit_bias": [1]},
        {"seed": 2**70},
        {"stop": [1]},
        {"stream": "yes"},
        {"echo": 1},
    ],
)
def test_values_out_of_range_are_refused_by_name(fields: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError) as refusal:
        read_completion({"prompt": "p", **fields})
    assert refusal.value.param.startswith(next(iter(fields)))


def test_options_of_a_stream_are_sent_only_with_a_stream() -> None:
    options = {"stream_options": {"include_usage": True, "zz": 1}}
    assert "stream_options" not in read_completion({"prompt": "p", **options}).fields
    streamed = read_completion({"prompt": "p", "stream": True, **options})
    assert streamed.fields["stream_options"] == {"include_usage": True}
    assert streamed.ignored == ("stream_options.zz",)


def test_what_came_before_an_error_is_passed_on_even_if_both_arrive_together() -> None:
    stream = ForwardedStream(read_completion({"prompt": "p", "stream": True}))
    first = stream_of(chunk("a"), done=False)
    parts = stream.feed(first + stream_of(json.dumps({"error": "x"})))
    assert next(parts) == ForwardedPart(first)
    with pytest.raises(EngineError):
        next(parts)
