from __future__ import annotations

from ferrule.schema.admission import admit
from ferrule.sources.bus.subject import Capability
from ferrule.sources.default_tools import DEFAULT_TOOLS

NAMES = {
    "search_corpus",
    "list_corpora",
    "translate",
    "find_neighbour",
    "list_marketplace",
    "describe_image",
    "transcribe_audio",
}


def test_the_specifications_seven_are_there_each_bound_to_a_capability_of_its_own() -> None:
    assert {tool.name for tool in DEFAULT_TOOLS} == NAMES
    capabilities = {Capability.read(tool.bound_capability or "", tool.bound_version) for tool in DEFAULT_TOOLS}
    assert len(capabilities) == 7


def test_each_says_what_it_is_for_and_changes_nothing() -> None:
    for tool in DEFAULT_TOOLS:
        assert tool.description
        assert not tool.side_effects
        assert admit(tool.parameters)
