import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.ids import ANY_ID, COUNTER, FUNCTION_COUNTER, NINE_ALNUM, TEN_LOWER, IdPolicy
from lab.reply_variants import Calls
from lab.template_formats import TEMPLATES
from lab.template_turns import example_id, inserted_text, turn_of
from lab.workers import oracles

PARIS: Calls = (("get_weather", {"city": "Paris"}),)
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Forecast.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "description": "Where."}},
                "required": ["city"],
            },
        },
    }
]


@given(before=st.text(), turn=st.text())
def test_a_turn_at_the_end_is_what_was_inserted(before: str, turn: str):
    assert inserted_text(before, before + turn) == turn


def test_a_turn_ahead_of_a_template_s_last_words_is_what_was_inserted():
    assert inserted_text("<s>hi<s>rules", "<s>hi<s>call<s>rules") == "<s>call"


@pytest.mark.parametrize("policy", [ANY_ID, COUNTER, FUNCTION_COUNTER, NINE_ALNUM, TEN_LOWER], ids=lambda p: p.name)
def test_an_example_id_fits_its_policy_and_is_the_same_every_time(policy: IdPolicy):
    assert policy.fits(example_id(policy, "f", 3), "f")
    assert example_id(policy, "f", 3) == example_id(policy, "f", 3) != example_id(policy, "f", 4)


@pytest.mark.oracle
def test_every_template_with_a_format_writes_a_turn_that_begins_and_ends_as_declared():
    with oracles() as worker:
        for file, template in TEMPLATES.items():
            if template.format:
                turn = turn_of(worker, file, template, PARIS, TOOLS)
                assert "get_weather" in turn
                assert not template.ends or not turn.endswith(template.ends), file
