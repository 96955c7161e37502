"""Marks that are special tokens of a model: found over HTTP, named in the rule, and left in the text."""

from __future__ import annotations

import pytest

from engines.providers import Answer, generated, sse, whole
from engines.tools import asked
from ferrule import ToolChoice
from ferrule.engines.checkpoint.special_tokens import all_marks, ends_among, marks_among
from ferrule.engines.generator import Grammar, Writing
from ferrule.engines.llama_body import streaming_body
from ferrule.engines.llama_server import llama_server
from ferrule.engines.text.engine import TextOptions
from ferrule.wire.registry import formats, preset

PROPS = whole({"default_generation_settings": {"n_ctx": 2000}, "chat_template": ""})


def said(text: str) -> Answer:
    return sse({"choices": [{"index": 0, "text": text, "finish_reason": "stop"}]}, done=True)


def cut(*pieces: tuple[int, object]) -> Answer:
    return whole({"tokens": [{"id": token, "piece": piece} for token, piece in pieces]})


def test_only_what_is_a_mark_as_a_whole_is_one() -> None:
    assert "<tool_call>" in all_marks().split("\n")
    cut_into = [("<tool_call>", 3), ("<tool", 4), ([240, 159], 5), ("\n", 6), ("<end_of_turn>", 7)]
    assert marks_among(cut_into) == {"<tool_call>": 3}
    assert ends_among(cut_into) == (7,)


def test_a_llama_server_is_asked_which_marks_are_special_and_the_rule_names_their_tokens() -> None:
    text = '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}'
    reply, sent = generated(
        lambda url: llama_server(url, TextOptions(format="mistral_v13", skips=False)),
        [
            *(PROPS, said("ferrule"), said("no")),
            cut((9, "[TOOL_CALLS]"), (10, "[ARGS]"), (11, "<tool_call>"), (2, [240, 159]), (12, "</s>")),
            cut((1, "["), (3, "TOOL"), (11, "<tool_call>")),
            said(text),
        ],
        asked(choice=ToolChoice.required()),
    )
    assert reply.calls[0].arguments == {"city": "Paris"}
    body = sent[-1].body
    assert "<[9]>" in body["grammar"]
    assert "<[10]>" in body["grammar"]
    # With this the turn may end, whatever the matcher takes for the end.
    assert "(<[12]>)?" in body["grammar"]
    assert {"[TOOL_CALLS]", "[ARGS]"} <= {*body["preserved_tokens"]}


def test_a_llama_server_that_is_too_old_to_tell_pieces_is_taken_as_it_is() -> None:
    text = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    numbers = whole({"tokens": [1, 2, 3]})
    reply, _ = generated(
        lambda url: llama_server(url, TextOptions(format="hermes", skips=False)),
        [PROPS, said("ferrule"), said("no"), numbers, numbers, said(text)],
        asked(choice=ToolChoice.required()),
    )
    assert reply.calls[0].arguments == {"city": "Paris"}


@pytest.mark.parametrize(
    "grammar, kept",
    [
        (None, ["[ARGS]"]),
        (Grammar("lark", "x"), ["[ARGS]"]),
        (Grammar("gbnf", "x", ("<a>", "[ARGS]")), ["<a>", "[ARGS]"]),
    ],
)
def test_marks_stay_in_the_text_that_llama_cpp_gives_back(grammar: Grammar | None, kept: list[str]) -> None:
    body = streaming_body(Writing(prompt="", max_tokens=1, grammar=grammar, marks=("[ARGS]",)))
    assert body["preserved_tokens"] == kept


def test_a_preset_has_the_tokens_of_all_that_it_reads() -> None:
    both = preset("both", ["hermes", "mistral_v13"])
    assert {*both.tokens} == {*formats()["hermes"].tokens, *formats()["mistral_v13"].tokens}
