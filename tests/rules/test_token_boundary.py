"""Forced text never ends inside of something for which a tokenizer may have one token."""

import pytest

from ferrule.rules.rule import Raw, RuleNode, Str, Value
from ferrule.rules.skip.continuations import Continuation
from ferrule.rules.skip.member_expansion import TAIL
from ferrule.rules.skip.token_boundary import NO_MARKERS, MarkerTokens, whole_token_prefix

STRING = Str(TAIL)
NUMBER = Value({"type": "integer"}, {"type": "integer"})
RAW = Raw({"type": "string"}, {}, ("\n</parameter>",))


@pytest.mark.parametrize(
    "text, value, prefix",
    [
        # One token may be the quote and what follows it: `""`, or ` "}`.
        ('{"city": "', STRING, '{"city":'),
        ('{"city":"', STRING, '{"city'),
        ('{"days": ', NUMBER, '{"days":'),
        # `:-` is a token of some vocabularies.
        ('{"days":', NUMBER, '{"days'),
        # So are `>\n` and `\n\n`.
        ("<parameter=city>\n", RAW, "<parameter=city"),
        ("<arg_value>", RAW, "<arg_value"),
    ],
)
def test_punctuation_before_a_value_is_left_to_the_model(text: str, value: RuleNode, prefix: str) -> None:
    assert whole_token_prefix(text, [Continuation("", (value,))], NO_MARKERS) == prefix


@pytest.mark.parametrize(
    "text, next_texts, prefix",
    [
        ('{"name": "get', ("ter", "_time"), '{"name":'),
        ('{"name": "get', ("_weather", "_time"), '{"name": "get'),
        ('{"name": "most_points_', ("career", "season"), '{"name": "most_points'),
        ('{"name": "', ("career", "season"), '{"name":'),
        ('{"a": true', (', "b"', "}"), '{"a": true'),
        ('{"a": true', (", ", ""), '{"a":'),
        ("<tool_call>\n<", ("function", "/tool_call"), "<tool_call"),
    ],
)
def test_before_a_choice_a_word_is_complete_only_if_no_continuation_begins_with_a_letter(
    text: str, next_texts: tuple[str, ...], prefix: str
) -> None:
    assert (
        whole_token_prefix(text, [Continuation(next_text, (STRING,)) for next_text in next_texts], NO_MARKERS) == prefix
    )


def test_a_marker_that_is_one_token_is_never_cut_and_ends_a_text_where_it_is_known() -> None:
    choices = [Continuation("a", (STRING,)), Continuation("/", (STRING,))]
    assert whole_token_prefix("x <tool_call>", choices, MarkerTokens(("<tool_call>",))) == "x"
    assert (
        whole_token_prefix("x <tool_call>", choices, MarkerTokens(("<tool_call>",), ("<tool_call>",)))
        == "x <tool_call>"
    )


def test_the_punctuation_before_a_marker_that_may_be_several_tokens_is_left_to_the_model() -> None:
    key, value = "</arg_key>", "<arg_value>"
    text = f"<arg_key>city{key}{value}"
    # `><` is a token of many vocabularies.
    assert whole_token_prefix(text, [Continuation("", (RAW,))], MarkerTokens((key, value))) == "<arg_key>city"
    known = MarkerTokens((key, value), (value,))
    assert whole_token_prefix(text, [Continuation("", (RAW,))], known) == text
    # No token spans the beginning of one that is known.
    assert whole_token_prefix(f"{text}<", [Continuation("", (RAW,))], known) == f"<arg_key>city{key}"


def test_what_nothing_follows_is_forced_to_its_end() -> None:
    assert whole_token_prefix('"}}\n', [Continuation("", ())], NO_MARKERS) == '"}}\n'
