"""The status of a source: alone, behind adapters, and combined with others."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from ferrule import ToolDefinition, tool
from ferrule.sources.adapters import ApprovalAdapter, FilterAdapter, PrefixAdapter
from ferrule.sources.bus.bus import Bus
from ferrule.sources.bus.connection import Connection
from ferrule.sources.combined_sources import CombinedSources
from ferrule.sources.default_tools import DEFAULT_TOOLS
from ferrule.sources.fake import FakeSource
from ferrule.sources.functions import Functions
from ferrule.sources.status import QuarantinedTool, SourceState, SourceStatus, ToolSnapshot, Trust

READ, WRITE = ToolDefinition("read"), ToolDefinition("write", side_effects=True)


class QuarantiningSource(FakeSource):
    """A source with a quarantined tool."""

    kind = "held"

    @property
    def statuses(self) -> tuple[SourceStatus, ...]:
        entry = QuarantinedTool("odd", "has changed", ToolSnapshot("now", {}, "2"), ToolSnapshot("before", {}, "1"))
        return (
            SourceStatus(self.id, self.kind, Trust.UNTRUSTED, SourceState.FAILED, "gone", ("read", "write"), (entry,)),
        )


def test_a_source_that_says_nothing_is_ready_and_offers_what_it_lists() -> None:
    assert FakeSource([READ]).statuses == (SourceStatus("fake", "other", Trust.OWN, SourceState.READY),)

    @tool
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    assert Functions([add]).statuses == (SourceStatus("python", "functions"),)


def test_an_adapter_shows_the_status_of_its_inner_source_under_its_own_names() -> None:
    inner = QuarantiningSource([READ, WRITE], id="files")
    assert ApprovalAdapter(inner).statuses == inner.statuses
    visible = PrefixAdapter(inner)
    asyncio.run(visible.tools())
    (one,) = visible.statuses
    assert (one.name, one.tools, one.quarantined[0].tool) == ("files", ("files_read", "files_write"), "files_odd")
    assert one.quarantined[0].before == ToolSnapshot("before", {}, "1")


def test_combined_sources_have_one_status_each_with_the_tools_that_they_serve() -> None:
    joined = CombinedSources(
        [FilterAdapter(QuarantiningSource([READ, WRITE], id="a"), lambda one: one == READ), FakeSource([WRITE], id="b")]
    )
    asyncio.run(joined.tools())
    first, second = joined.statuses
    assert (first.name, first.tools, first.state, first.trust) == ("a", ("read",), SourceState.FAILED, Trust.UNTRUSTED)
    assert (second.name, second.tools, second.quarantined) == ("b", ("write",), ())


def test_a_name_that_two_sources_claim_is_quarantined_at_both() -> None:
    other = ToolDefinition("read", "Another.")
    joined = CombinedSources([FakeSource([READ, WRITE], id="a"), FakeSource([other], id="b")])
    asyncio.run(joined.tools())
    message = {one.name: (one.tools, [(entry.tool, entry.now) for entry in one.quarantined]) for one in joined.statuses}
    assert message == {
        "a": (("write",), [("read", ToolSnapshot.of(READ))]),
        "b": ((), [("read", ToolSnapshot.of(other))]),
    }
    assert joined.notices == ("read is claimed by several sources and is not offered",)


@pytest.mark.parametrize("parameters", [{"a": float("nan")}, {"a": {1, 2}}])
def test_a_definition_that_is_no_json_is_described_without_it(parameters: dict[str, Any]) -> None:
    assert ToolSnapshot.of(ToolDefinition("odd", "Odd.", parameters)) == ToolSnapshot("Odd.", {}, "")


def test_a_bus_is_believed_unless_the_definitions_are_of_ones_own_making() -> None:
    (closed,) = Bus().statuses
    assert (closed.name, closed.kind, closed.trust, closed.state) == ("bus", "bus", Trust.TRUSTED, SourceState.CLOSED)
    assert Bus(bindings=DEFAULT_TOOLS).statuses[0].trust is Trust.OWN


@pytest.mark.parametrize(
    "is_connected, complaints, expected",
    [
        (True, ["an old one"], (SourceState.READY, "")),
        (False, [], (SourceState.FAILED, "not connected")),
        (False, ["refused", "closed"], (SourceState.FAILED, "closed")),
    ],
)
def test_a_connection_says_whether_there_is_a_server(
    is_connected: bool, complaints: list[str], expected: tuple[SourceState, str]
) -> None:
    class Client:
        def __init__(self) -> None:
            self.is_connected = is_connected

    connection = Connection(_client=cast("Any", Client()))
    connection.errors.extend(complaints)
    assert connection.status == expected
