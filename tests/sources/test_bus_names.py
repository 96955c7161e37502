from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError
from ferrule.sources.bus.names import ToolNames
from ferrule.sources.bus.subject import Capability

short = st.sampled_from(["a", "b", "a_b", "b_a", "a_a", "ü", "_"])
served_tools = st.dictionaries(
    st.builds(Capability, short, short, st.integers(1, 2)),
    st.sampled_from(["a", "b", "a_a", "a_b"]).map(ToolDefinition),
    max_size=8,
)


def served(*capabilities: str) -> dict[Capability, ToolDefinition]:
    read = [Capability.read(text) for text in capabilities]
    return {one: ToolDefinition(one.tool, bound_capability=one.name, bound_version=one.version) for one in read}


@given(st.lists(served_tools, max_size=4))
def test_no_name_maps_to_two_capabilities_and_none_changes_its_meaning(looks: list[dict]) -> None:
    names = ToolNames()
    expected: dict[str, tuple[str, int]] = {}
    for look in looks:
        offered = names.offer(look)
        assert len({tool.name for tool in offered}) == len(look)
        for tool in offered:
            capability = names.capability_of(tool.name)
            assert capability is not None
            assert capability in look
            same = (capability.name, capability.major)
            assert expected.setdefault(tool.name, same) == same


def test_a_tool_keeps_its_own_name_where_nobody_else_wants_it() -> None:
    names = ToolNames()
    assert [tool.name for tool in names.offer(served("corpus.search@1.0"))] == ["search"]
    assert names.capability_of("search") == Capability("corpus", "search")
    assert names.capability_of("other") is None


def test_of_two_that_come_together_neither_gets_the_short_name() -> None:
    offered = ToolNames().offer(served("corpus.search@1.0", "web.search@1.0"))
    assert [tool.name for tool in offered] == ["corpus_search", "web_search"]


def test_who_comes_later_cannot_take_a_name_over() -> None:
    names = ToolNames()
    names.offer(served("web.search@1.0"))
    offered = names.offer(served("a.search@1.0", "web.search@1.0"))
    assert [(tool.name, tool.bound_capability) for tool in offered] == [
        ("a_search", "a.search"),
        ("search", "web.search"),
    ]


def test_a_newer_minor_version_is_asked_for_once_it_is_served() -> None:
    names = ToolNames()
    names.offer(served("web.search@1.0"))
    names.offer(served("web.search@1.4"))
    assert names.capability_of("search") == Capability("web", "search", 1, 4)


def test_bindings_are_offered_where_their_capability_is_served_in_a_fitting_version() -> None:
    bound = [
        ToolDefinition("find", bound_capability="web.search", bound_version="1.2"),
        ToolDefinition("other", bound_capability="web.other", bound_version="1.0"),
    ]
    names = ToolNames(bound)
    assert names.offer(served("web.search@1.1", "web.third@1.0")) == ()
    assert names.offer(served("web.search@1.2")) == (bound[0],)
    assert names.capability_of("find") == Capability("web", "search", 1, 2)


def test_a_binding_without_a_capability_is_refused() -> None:
    with pytest.raises(DefinitionError):
        ToolNames([ToolDefinition("loose")])
