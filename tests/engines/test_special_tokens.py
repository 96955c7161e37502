"""Markers that are special tokens of a model: found over HTTP, named in the grammar, and kept in the text."""

from __future__ import annotations

import pytest

from engines.providers import CannedResponse, generate, json_response, sse
from engines.tools import make_request
from ferrule import ToolChoice
from ferrule.engines.checkpoint.special_tokens import call_tokens_among, end_tokens_among, special_token_texts
from ferrule.engines.generator import CompletionRequest, Grammar
from ferrule.engines.llama_body import completion_body
from ferrule.engines.llama_server import llama_server
from ferrule.engines.text.engine import TextOptions
from ferrule.wire.registry import all_formats, preset

PROPS = json_response({"default_generation_settings": {"n_ctx": 2000}, "chat_template": ""})


def text_response(text: str) -> CannedResponse:
    return sse({"choices": [{"index": 0, "text": text, "finish_reason": "stop"}]}, done=True)


def tokenize_response(*pieces: tuple[int, object]) -> CannedResponse:
    return json_response({"tokens": [{"id": token, "piece": piece} for token, piece in pieces]})


def test_only_a_whole_marker_counts_as_a_special_token() -> None:
    assert "<tool_call>" in special_token_texts().split("\n")
    pieces = [("<tool_call>", 3), ("<tool", 4), ([240, 159], 5), ("\n", 6), ("<end_of_turn>", 7)]
    assert call_tokens_among(pieces) == {"<tool_call>": 3}
    assert end_tokens_among(pieces) == (7,)


def test_a_llama_server_reports_special_markers_and_the_grammar_names_their_tokens() -> None:
    text = '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}'
    reply, requests = generate(
        lambda url: llama_server(url, TextOptions(format="mistral_v13", skips=False)),
        [
            *(PROPS, text_response("ferrule"), text_response("no")),
            tokenize_response((9, "[TOOL_CALLS]"), (10, "[ARGS]"), (11, "<tool_call>"), (2, [240, 159]), (12, "</s>")),
            tokenize_response((1, "["), (3, "TOOL"), (11, "<tool_call>")),
            text_response(text),
        ],
        make_request(choice=ToolChoice.required()),
    )
    assert reply.calls[0].arguments == {"city": "Paris"}
    body = requests[-1].body
    assert "<[9]>" in body["grammar"]
    assert "<[10]>" in body["grammar"]
    # The turn may end with this token, whatever the matcher takes for the end.
    assert "(<[12]>)?" in body["grammar"]
    assert {"[TOOL_CALLS]", "[ARGS]"} <= {*body["preserved_tokens"]}


def test_a_llama_server_that_is_too_old_to_report_pieces_still_works() -> None:
    text = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    numbers = json_response({"tokens": [1, 2, 3]})
    reply, _ = generate(
        lambda url: llama_server(url, TextOptions(format="hermes", skips=False)),
        [PROPS, text_response("ferrule"), text_response("no"), numbers, numbers, text_response(text)],
        make_request(choice=ToolChoice.required()),
    )
    assert reply.calls[0].arguments == {"city": "Paris"}


@pytest.mark.parametrize(
    "grammar, expected",
    [
        (None, ["[ARGS]"]),
        (Grammar("lark", "x"), ["[ARGS]"]),
        (Grammar("gbnf", "x", ("<a>", "[ARGS]")), ["<a>", "[ARGS]"]),
    ],
)
def test_markers_stay_in_the_text_that_llama_cpp_returns(grammar: Grammar | None, expected: list[str]) -> None:
    body = completion_body(CompletionRequest(prompt="", max_tokens=1, grammar=grammar, preserved_tokens=("[ARGS]",)))
    assert body["preserved_tokens"] == expected


def test_a_preset_has_the_tokens_of_all_that_it_reads() -> None:
    both = preset("both", ["hermes", "mistral_v13"])
    assert {*both.tokens} == {*all_formats()["hermes"].tokens, *all_formats()["mistral_v13"].tokens}
