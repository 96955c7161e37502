import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.errors import SchemaError
from ferrule.schema.checker import Checker
from ferrule.schema.patterns import pattern_size

PIECES = st.sampled_from(
    [
        "a", "é", ".", "^", "$", "|", "(", ")", "(?:", "(?<n>", "(?=", "[", "[^", "]", "-", "\\d", "\\W", "\\b", "\\1",
        "*", "+", "?", "{", "}", "{2}", "{1,}", "{0,3}", "{,3}", "{3,1}", "\\p{L}", "\\x41", "\\u00e9", "\\", "&&",
        "[:alpha:]", "\\/", "\\Z", "#", "(?i)", "a-z", "\n", "\\cA", "\\u{1F600}", "\\ud800", "\\-", " ", "~~", "--",
    ]
)  # fmt: skip


def size(pattern: str) -> int:
    return pattern_size(pattern, "/pattern", max_length=512, max_size=10_000)


def is_accepted(pattern: str) -> bool:
    try:
        return size(pattern) > 0
    except SchemaError:
        return False


@given(st.lists(PIECES, max_size=8).map("".join))
def test_whatever_is_accepted_compiles_in_the_validator(pattern: str) -> None:
    if is_accepted(pattern):
        Checker({"pattern": pattern})


@given(
    st.text(alphabet="ab", max_size=12),
    st.lists(st.sampled_from(["a", "b", "(?:ab)", "[ab]", "a*", "b+", "a?", "b{2}"])),
)
def test_an_accepted_pattern_matches_what_python_says_it_matches(text: str, pieces: list[str]) -> None:
    pattern = "^" + "".join(pieces) + "$"
    size(pattern)
    assert (Checker({"pattern": pattern}).faults(text) == ()) is (re.search(pattern, text) is not None)


@pytest.mark.parametrize(
    "pattern",
    [
        "", "^(a+)+$", "^[A-Z]{2}-[0-9]{1,6}$", "^[\\w.-]+@[\\w.-]+\\.[a-z]{2,}$", "^https?://", "(?<year>\\d{4})",
        "a|b|",         "[\\]^-]", "[^\\s\\S]", "\\$\\{x\\}", "a{1000}", "\\p{L}+", "x*?y+?", "]}", "[[a]", "^$",
    ],
)  # fmt: skip
def test_ordinary_patterns_are_accepted(pattern: str) -> None:
    assert size(pattern) > 0
    Checker({"pattern": pattern})


@pytest.mark.parametrize(
    "pattern, code",
    [
        ("(?=a)", "pattern_not_linear"),
        ("(?!a)b", "pattern_not_linear"),
        ("(?<=a)b", "pattern_not_linear"),
        ("(?<!a)b", "pattern_not_linear"),
        ("(a)\\1", "pattern_not_linear"),
        ("(?<n>a)\\k<n>", "pattern_not_linear"),
        ("(a{1000}){1000}", "pattern_too_large"),
        ("((a{30}){30}){30}", "pattern_too_large"),
        ("a{1001}", "pattern_too_large"),
        ("\\p{L}{1000}", "pattern_too_large"),
        ("(" * 100 + ")" * 100, "pattern_too_large"),
        ("a" * 513, "pattern_too_large"),
        ("(", "pattern_invalid"),
        (")", "pattern_invalid"),
        ("[", "pattern_invalid"),
        ("[]", "pattern_invalid"),
        ("[z-a]", "pattern_invalid"),
        ("[\\d-x]", "pattern_invalid"),
        ("*a", "pattern_invalid"),
        ("a**", "pattern_invalid"),
        ("a{,3}", "pattern_invalid"),
        ("a{3,2}", "pattern_invalid"),
        ("^*", "pattern_invalid"),
        ("\\", "pattern_invalid"),
        ("\\Z", "pattern_invalid"),
        ("(?i)a", "pattern_invalid"),
        ("(?#note)", "pattern_invalid"),
        ("\\ud800", "pattern_invalid"),
    ],
)
def test_a_pattern_that_is_not_safe_or_not_valid_is_refused(pattern: str, code: str) -> None:
    with pytest.raises(SchemaError) as refused:
        size(pattern)
    assert refused.value.code == code
    assert refused.value.hint


def test_repetitions_multiply() -> None:
    assert size("(a{10}){10}") > 100 > size("a{10}a{10}")
