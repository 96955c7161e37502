from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.schema.docstring import DocstringParts, read_docstring

NAMES = st.lists(st.from_regex(r"[a-z][a-z_]{0,6}", fullmatch=True), min_size=1, max_size=4, unique=True)
WORDS = st.from_regex(r"[A-Za-z]{2,8}( [a-z]{2,8}){0,3}", fullmatch=True)
TEXTS = st.builds(dict.fromkeys, NAMES, WORDS)


def google(texts: dict[str, str]) -> str:
    entries = [f"    {name} (str): {words}" for name, words in texts.items()]
    return "\n".join(["Does it.", "", "Args:", *entries, "", "Returns:", "    What: it did."])


def numpy(texts: dict[str, str]) -> str:
    entries = [f"{name} : str, optional\n    {words}" for name, words in texts.items()]
    return "\n".join(["Does it.", "", "Parameters", "----------", *entries, "", "Returns", "-------", "str", "    It."])


def sphinx(texts: dict[str, str]) -> str:
    entries = [f":param str {name}: {words}\n:type {name}: str" for name, words in texts.items()]
    return "\n".join(["Does it.", "", *entries, ":returns: It."])


@given(TEXTS, st.sampled_from([google, numpy, sphinx]), st.integers(0, 8))
def test_the_three_styles_give_the_same_parts(
    texts: dict[str, str], style: Callable[[dict[str, str]], str], indent: int
) -> None:
    first, *rest = style(texts).split("\n")
    text = "\n".join([first, *(" " * indent + line for line in rest)])
    assert read_docstring(text) == DocstringParts("Does it.", texts)


@given(st.text(alphabet=" \n:-abArgs(),.*_Parametrs"))
def test_any_text_is_read(text: str) -> None:
    read_docstring(text)


@given(st.from_regex(r"[a-z]{1,9}( [a-z]{1,9}){0,5}\.", fullmatch=True))
def test_a_text_without_sections_is_description(text: str) -> None:
    assert read_docstring(text) == DocstringParts(text)


@pytest.mark.parametrize("text", [None, "", "\n\n"])
def test_an_empty_docstring_has_empty_parts(text: str | None) -> None:
    assert read_docstring(text) == DocstringParts()


def test_google_texts_continue_on_indented_lines_and_may_contain_colons() -> None:
    read = read_docstring(
        """Find a train.

        Second paragraph: with a colon.

        Args:
            city: Where to go: a name
                or a station code.
            days (int, optional): How long.

                Counted in nights.
            *rest: The others.

        Raises:
            ValueError: never.
        """
    )
    assert read.description == "Find a train.\n\nSecond paragraph: with a colon."
    assert read.parameters == {
        "city": "Where to go: a name or a station code.",
        "days": "How long. Counted in nights.",
        "rest": "The others.",
    }


def test_numpy_entries_may_share_a_text_and_need_no_type() -> None:
    read = read_docstring(
        """Add.

        Parameters
        ----------
        a, b : int
            The numbers.
        scale
            A factor,
            or one.

        Notes
        -----
        city : not a parameter
        """
    )
    assert read == DocstringParts("Add.", {"a": "The numbers.", "b": "The numbers.", "scale": "A factor, or one."})


def test_sphinx_fields_continue_on_indented_lines() -> None:
    read = read_docstring(
        """Send.

        :param to: Who
            gets it.
        :param dict[str, int] body: What.
        :raises OSError: if it fails
        :return: nothing
        """
    )
    assert read == DocstringParts("Send.", {"to": "Who gets it.", "body": "What."})


def test_an_indented_line_with_a_colon_is_no_new_parameter() -> None:
    read = read_docstring(
        "Do.\n\nArgs:\n    mode: One of\n        fast: no checks\n        safe: all checks\n    b: Words."
    )
    assert read.parameters == {"mode": "One of fast: no checks safe: all checks", "b": "Words."}


def test_a_parameter_without_words_has_no_text() -> None:
    assert read_docstring("Do.\n\nArgs:\n    a:\n    b: Words.").parameters == {"b": "Words."}
