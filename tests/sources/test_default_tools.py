from __future__ import annotations

from ferrule.schema.admission import admit
from ferrule.sources.bus.subject import Capability
from ferrule.sources.default_tools import DEFAULT_TOOLS

# As section 4.2 of the specification's bus document has them. It names no capability for find_neighbour.
CAPABILITIES = {
    "search_corpus": "rag.query@1.0",
    "list_corpora": "rag.list_corpora@1.0",
    "translate": "trans.text@1.0",
    "find_neighbour": "neighbour.find@1.0",
    "list_marketplace": "market.list@1.0",
    "describe_image": "img.describe@1.0",
    "transcribe_audio": "stt.transcribe@1.0",
}


def test_the_specifications_seven_are_bound_to_its_capabilities() -> None:
    bound = {tool.name: str(Capability.read(tool.bound_capability or "", tool.bound_version)) for tool in DEFAULT_TOOLS}
    assert len(DEFAULT_TOOLS) == 7
    assert bound == CAPABILITIES


def test_each_says_what_it_is_for_and_changes_nothing() -> None:
    for tool in DEFAULT_TOOLS:
        assert tool.description
        assert not tool.side_effects
        assert admit(tool.parameters)
