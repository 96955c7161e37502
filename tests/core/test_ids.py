"""Call ids: a policy accepts what it creates, and the forms are the ones that templates check."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core import ids
from ferrule.core.ids import ANY_ID, COUNTER, FUNCTION_COUNTER, NINE_ALNUM, TEN_LOWER, IdPolicy, make_unique

POLICIES = {policy.name: policy for policy in vars(ids).values() if isinstance(policy, IdPolicy)}

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.\-]{0,20}", fullmatch=True)
counts = st.integers(0, 99)


def test_all_policies_are_looked_at() -> None:
    assert set(POLICIES) == {"any", "nine_alnum", "ten_lower", "counter", "function_counter"}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@given(name=names, count=counts)
def test_what_is_made_fits(policy: IdPolicy, name: str, count: int) -> None:
    assert policy.fits(policy.make(name, count), name)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@given(name=names, count=counts)
def test_a_sample_fits_and_is_always_the_same(policy: IdPolicy, name: str, count: int) -> None:
    assert policy.fits(policy.sample(name, count), name)
    assert policy.sample(name, count) == policy.sample(name, count)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@given(name=names, a=counts, b=counts)
def test_samples_of_two_calls_differ(policy: IdPolicy, name: str, a: int, b: int) -> None:
    assert (policy.sample(name, a) == policy.sample(name, b)) is (a == b)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_an_empty_id_never_fits(policy: IdPolicy) -> None:
    assert not policy.fits("", "get_weather")


@pytest.mark.parametrize("policy", [ANY_ID, NINE_ALNUM, TEN_LOWER])
def test_an_id_that_carries_nothing_is_drawn_anew_each_time(policy: IdPolicy) -> None:
    assert len({policy.make("f", 0) for _ in range(50)}) == 50


@pytest.mark.parametrize(
    "policy, id, fits",
    [
        (ANY_ID, "toolu_01", True),
        (NINE_ALNUM, "Zz09aBcDe", True),
        (NINE_ALNUM, "Zz09aBcD", False),
        (NINE_ALNUM, "Zz09aBcDe0", False),
        (NINE_ALNUM, "call_0001", False),
        (NINE_ALNUM, "Zz09aBcDé", False),
        (TEN_LOWER, "abcdefgh01", True),
        (TEN_LOWER, "Abcdefgh01", False),
        (COUNTER, "17", True),
        (COUNTER, "-1", False),
        (COUNTER, "²", False),
        (FUNCTION_COUNTER, "functions.get_weather:12", True),
        (FUNCTION_COUNTER, "functions.get_wind:12", False),
        (FUNCTION_COUNTER, "functions.get_weather:", False),
        (FUNCTION_COUNTER, "get_weather:12", False),
    ],
    ids=lambda value: value.name if isinstance(value, IdPolicy) else str(value),
)
def test_the_form_is_checked(policy: IdPolicy, id: str, fits: bool) -> None:
    assert policy.fits(id, "get_weather") is fits


def test_a_function_counter_is_the_name_and_a_number_and_nothing_else() -> None:
    assert FUNCTION_COUNTER.fits("functions.a:3", "a")
    assert not FUNCTION_COUNTER.fits("functions.a:b:3", "a")
    assert not FUNCTION_COUNTER.fits("functions.a:²", "a")


@given(st.lists(st.sampled_from(["a1B", "9", "zz", "", "call-9", "ZZZ999zzz"]), max_size=12))
def test_repeated_ids_become_unique_and_keep_their_form(ids: list[str]) -> None:
    unique = make_unique(ids)
    assert len({*unique}) == len(unique) == len(ids)
    for before, after, earlier in zip(ids, unique, (ids[:n] for n in range(len(ids))), strict=True):
        assert before == after or before in {*earlier, *unique}
        assert [kind(char) for char in after[: len(before)]] == [kind(char) for char in before]


def kind(char: str) -> str:
    return "digit" if char.isdigit() else "lower" if char.islower() else "upper" if char.isupper() else char


@pytest.mark.parametrize("policy", [policy for policy in POLICIES.values() if "counter" not in policy.name])
def test_a_unique_id_still_fits_its_family(policy: IdPolicy) -> None:
    ids = policy.sample("f", 0)
    for unique in make_unique([ids] * 50):
        assert policy.fits(unique, "f")
