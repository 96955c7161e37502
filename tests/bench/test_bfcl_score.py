from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.bfcl_data import WEATHER
from ferrule import ToolCall
from ferrule.bench.bfcl.categories import CATEGORIES, UNSUPPORTED, Scoring, select_categories
from ferrule.bench.bfcl.miss import Miss, Reason
from ferrule.bench.bfcl.score import AnswerKey, PossibleCall, miss_of
from ferrule.errors import DefinitionError


def key(*cities: str, is_underscored: bool = False) -> AnswerKey:
    expected = tuple(PossibleCall("weather.get", {"city": [city], "days": ["", 1]}) for city in cities)
    return AnswerKey(Scoring.SAME_CALLS, (WEATHER,), expected, is_underscored)


def weather(city: str, **more: Any) -> ToolCall:
    return ToolCall.of("weather.get", {"city": city, **more})


@given(cities=st.lists(st.text(alphabet="abc", min_size=1, max_size=3), min_size=1, max_size=5), luck=st.randoms())
def test_parallel_calls_may_come_in_any_order(cities: list[str], luck: Any) -> None:
    shuffled = cities.copy()
    luck.shuffle(shuffled)
    assert miss_of(key(*cities), [weather(city) for city in shuffled]) is None


@given(count=st.integers(1, 5), expected=st.integers(1, 5))
def test_the_number_of_calls_must_be_the_expected_one(count: int, expected: int) -> None:
    miss = miss_of(key(*["Rome"] * expected), [weather("Rome")] * count)
    assert (miss is None) == (count == expected)
    assert miss is None or miss.reason is Reason.COUNT


@pytest.mark.parametrize(
    "call, miss",
    [
        (weather("Rome"), None),
        (weather("rome", days=1), None),
        (ToolCall.of("weather.set", {"city": "Rome"}), Miss(Reason.FUNCTION, "weather.set")),
        (ToolCall.of("weather_get", {"city": "Rome"}), Miss(Reason.FUNCTION, "weather_get")),
        (ToolCall.of("weather.get", {"days": 1}), Miss(Reason.MISSING, "city")),
        (weather("Rome", mood="good"), Miss(Reason.UNEXPECTED, "mood")),
        (weather("Rome", days="1"), Miss(Reason.TYPE, "days")),
        (weather("Rome", days=2), Miss(Reason.VALUE, "days")),
        (weather("Oslo"), Miss(Reason.VALUE, "city")),
        (ToolCall.of("weather.get", "[1]"), Miss(Reason.UNREADABLE, "weather.get")),
    ],
)
def test_the_reason_of_a_miss_names_what_it_is_about(call: ToolCall, miss: Miss | None) -> None:
    assert miss_of(key("Rome"), [call]) == miss


def test_no_call_is_distinguished_from_too_few_calls() -> None:
    assert miss_of(key("Rome", "Oslo"), []) == Miss(Reason.NOT_CALLED)
    assert miss_of(key("Rome", "Oslo"), [weather("Rome")]) == Miss(Reason.COUNT)


def test_an_argument_that_the_answer_does_not_let_out_must_be_there() -> None:
    demanding = AnswerKey(
        Scoring.SAME_CALLS, (WEATHER,), (PossibleCall("weather.get", {"city": ["Rome"], "days": [1]}),)
    )
    assert miss_of(demanding, [weather("Rome")]) == Miss(Reason.MISSING, "days")


def test_a_function_that_was_offered_with_underscores_is_expected_with_them() -> None:
    assert miss_of(key("Rome", is_underscored=True), [ToolCall.of("weather_get", {"city": "Rome"})]) is None
    assert miss_of(key("Rome", is_underscored=True), [weather("Rome")]) == Miss(Reason.FUNCTION, "weather.get")


def test_of_several_calls_the_reason_is_that_of_the_right_function() -> None:
    calls = [ToolCall.of("weather.set", {}), weather("Oslo")]
    assert miss_of(key("Rome", "Rome"), calls) == Miss(Reason.VALUE, "city")


@pytest.mark.parametrize(
    "scoring, calls, miss",
    [
        (Scoring.NO_CALL, [], None),
        (Scoring.NO_CALL, [weather("Rome")], Miss(Reason.CALLED, "weather.get")),
        (Scoring.NO_CALL, [ToolCall.of("weather.get", "{")], None),
        (Scoring.ANY_CALL, [], Miss(Reason.NOT_CALLED)),
        (Scoring.ANY_CALL, [weather("Nowhere")], None),
    ],
)
def test_relevance_asks_only_whether_there_is_a_call(scoring: Scoring, calls: Any, miss: Miss | None) -> None:
    assert miss_of(AnswerKey(scoring), calls) == miss


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_a_category_that_cannot_be_scored_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(DefinitionError, match=f"{name} is not supported: .+"):
        select_categories([name])


def test_an_unknown_category_is_refused_with_the_list_of_known_ones() -> None:
    with pytest.raises(DefinitionError) as refusal:
        select_categories(["simple"])
    assert all(name in refusal.value.hint for name in CATEGORIES)
