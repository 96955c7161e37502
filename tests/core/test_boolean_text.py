"""One vocabulary for booleans in text that people write, wherever they write it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from architecture.source_tree import modules
from ferrule.core.boolean_text import parse_boolean
from ferrule.errors import DefinitionError
from ferrule.run.executor import ToolSettings
from ferrule.server.config.tables import setting_type_of

WORDS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


def in_a_setting(text: str) -> bool:
    found = setting_type_of(bool)
    assert found is not None
    return found.parse_text(text)


def in_a_tool_setting(text: str) -> bool:
    return ToolSettings.read({"TOOLS_ENABLED": text}).tools_enabled


PLACES = (parse_boolean, in_a_setting, in_a_tool_setting)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("word", WORDS)
def test_every_place_reads_the_same_words_in_any_case(place: Callable[[str], bool], word: str) -> None:
    assert [place(word), place(word.upper()), place(f" {word.capitalize()} ")] == [WORDS[word]] * 3


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("word", ["", "perhaps", "2", "tru", "y", "none"])
def test_no_place_guesses_what_another_word_means(place: Callable[[str], bool], word: str) -> None:
    with pytest.raises((ValueError, DefinitionError)):
        place(word)


def test_no_other_module_has_a_table_of_words_for_true() -> None:
    table = re.compile(r"""["'](?:yes|on|true)["']:\s*True\b""")
    holders = [name for name, path in modules().items() if table.search(path.read_text(encoding="utf-8"))]
    assert holders == ["ferrule.core.boolean_text"]
