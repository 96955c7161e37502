import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.json_text import dumps
from ferrule.errors import SchemaError
from ferrule.rules.matcher import ByteMatcher
from ferrule.schema.admission import admit
from ferrule.schema.checker import Checker, checker_for
from ferrule.schema.patterns import CATEGORIES, PROPERTIES, SCRIPTS, pattern_size

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


# Characters of many categories and scripts.
CHARACTERS = "aZ9_ -\n\t$+<^`é\u0301\u0903\u20ddαЖאع漢ひカ한กअআǅʰªⅣ²٣«»“”‐…€\u00a0\u2028\u2029\u200b😀\u0007Ა"
UNICODE_NAMES = (*CATEGORIES, *PROPERTIES, "gc=Lu", *(f"Script={name}" for name in SCRIPTS), "sc=Greek", "scx=Han")


@pytest.mark.parametrize("name", UNICODE_NAMES)
def test_validator_and_grammar_read_a_unicode_property_alike(name: str) -> None:
    for letter in "pP":
        schema = admit({"type": "string", "pattern": f"^\\{letter}{{{name}}}$"})
        grammar = ByteMatcher(f"start: %json {dumps(schema)}")
        verdicts = {char: checker_for(schema).fits(char) for char in CHARACTERS}
        assert verdicts == {char: grammar.accepts(dumps(char)) for char in CHARACTERS}


@pytest.mark.parametrize("pattern", [r"\pL", r"\p{Greek}", r"\p{Script=Klingon}", r"[\p{Letters}]", r"\P{}"])
def test_an_unknown_unicode_property_is_refused_with_a_code_and_a_hint(pattern: str) -> None:
    with pytest.raises(SchemaError) as refusal:
        admit({"type": "string", "pattern": pattern})
    assert refusal.value.code == "pattern_invalid"
    assert "Script=Greek" in refusal.value.hint
