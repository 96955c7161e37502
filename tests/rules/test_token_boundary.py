"""Where forced text may end: never amid what a tokenizer may have one token for."""

import pytest

from ferrule.rules.rule import Raw, RuleNode, Str, Value
from ferrule.rules.skip.continuations import Option
from ferrule.rules.skip.member_expansion import TAIL
from ferrule.rules.skip.token_boundary import NO_MARKS, Marks, settled

STRING = Str(TAIL)
NUMBER = Value({"type": "integer"}, {"type": "integer"})
RAW = Raw({"type": "string"}, {}, ("\n</parameter>",))


@pytest.mark.parametrize(
    "text, value, kept",
    [
        # One token may be the quote and what stands behind it: `""`, or ` "}`.
        ('{"city": "', STRING, '{"city":'),
        ('{"city":"', STRING, '{"city'),
        ('{"days": ', NUMBER, '{"days":'),
        # `:-` is a token of some vocabularies.
        ('{"days":', NUMBER, '{"days'),
        # And `>\n`, and `\n\n`.
        ("<parameter=city>\n", RAW, "<parameter=city"),
        ("<arg_value>", RAW, "<arg_value"),
    ],
)
def test_marks_before_a_value_are_left_to_the_model(text: str, value: RuleNode, kept: str) -> None:
    assert settled(text, [Option("", (value,))], NO_MARKS) == kept


@pytest.mark.parametrize(
    "text, ways, kept",
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
def test_before_a_choice_a_word_is_whole_only_where_no_way_on_begins_with_one(
    text: str, ways: tuple[str, ...], kept: str
) -> None:
    assert settled(text, [Option(way, (STRING,)) for way in ways], NO_MARKS) == kept


def test_a_marker_that_is_one_token_is_never_cut_and_ends_a_text_where_it_is_known() -> None:
    ways = [Option("a", (STRING,)), Option("/", (STRING,))]
    assert settled("x <tool_call>", ways, Marks(("<tool_call>",))) == "x"
    assert settled("x <tool_call>", ways, Marks(("<tool_call>",), ("<tool_call>",))) == "x <tool_call>"


def test_what_nothing_follows_is_forced_to_its_end() -> None:
    assert settled('"}}\n', [Option("", ())], NO_MARKS) == '"}}\n'
