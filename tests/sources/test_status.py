"""How it stands with a source, by its own word: alone, seen through panes, and joined with others."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from ferrule import ToolDefinition, tool
from ferrule.sources.adapters import Confirmed, Filtered, Prefixed
from ferrule.sources.bus.bus import Bus
from ferrule.sources.bus.connection import Connection
from ferrule.sources.combined_sources import Joined
from ferrule.sources.default_tools import DEFAULT_TOOLS
from ferrule.sources.fake import FakeSource
from ferrule.sources.functions import Functions
from ferrule.sources.status import Described, Quarantined, Standing, State, Trust

READ, WRITE = ToolDefinition("read"), ToolDefinition("write", side_effects=True)


class Held(FakeSource):
    """One of whose tools is not what was agreed to."""

    kind = "held"

    @property
    def standings(self) -> tuple[Standing, ...]:
        held = Quarantined("odd", "has changed", Described("now", {}, "2"), Described("before", {}, "1"))
        return (Standing(self.id, self.kind, Trust.UNTRUSTED, State.FAILED, "gone", ("read", "write"), (held,)),)


def test_a_source_that_says_nothing_is_ready_and_offers_what_it_lists() -> None:
    assert FakeSource([READ]).standings == (Standing("fake", "other", Trust.OWN, State.READY),)

    @tool
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    assert Functions([add]).standings == (Standing("python", "functions"),)


def test_a_pane_shows_how_it_stands_with_what_is_behind_it_under_its_own_names() -> None:
    inner = Held([READ, WRITE], id="files")
    assert Confirmed(inner).standings == inner.standings
    shown = Prefixed(inner)
    asyncio.run(shown.tools())
    (one,) = shown.standings
    assert (one.name, one.tools, one.quarantined[0].tool) == ("files", ("files_read", "files_write"), "files_odd")
    assert one.quarantined[0].before == Described("before", {}, "1")


def test_joined_sources_are_told_apart_each_with_the_tools_that_are_reached_there() -> None:
    joined = Joined([Filtered(Held([READ, WRITE], id="a"), lambda one: one == READ), FakeSource([WRITE], id="b")])
    asyncio.run(joined.tools())
    first, second = joined.standings
    assert (first.name, first.tools, first.state, first.trust) == ("a", ("read",), State.FAILED, Trust.UNTRUSTED)
    assert (second.name, second.tools, second.quarantined) == ("b", ("write",), ())


def test_a_name_that_two_sources_claim_is_held_back_at_both() -> None:
    other = ToolDefinition("read", "Another.")
    joined = Joined([FakeSource([READ, WRITE], id="a"), FakeSource([other], id="b")])
    asyncio.run(joined.tools())
    told = {one.name: (one.tools, [(held.tool, held.now) for held in one.quarantined]) for one in joined.standings}
    assert told == {"a": (("write",), [("read", Described.of(READ))]), "b": ((), [("read", Described.of(other))])}
    assert joined.notices == ("read is claimed by several sources and is not offered",)


@pytest.mark.parametrize("parameters", [{"a": float("nan")}, {"a": {1, 2}}])
def test_a_definition_that_is_no_json_is_described_without_it(parameters: dict[str, Any]) -> None:
    assert Described.of(ToolDefinition("odd", "Odd.", parameters)) == Described("Odd.", {}, "")


def test_a_bus_is_believed_unless_the_definitions_are_of_ones_own_making() -> None:
    (closed,) = Bus().standings
    assert (closed.name, closed.kind, closed.trust, closed.state) == ("bus", "bus", Trust.TRUSTED, State.CLOSED)
    assert Bus(bindings=DEFAULT_TOOLS).standings[0].trust is Trust.OWN


@pytest.mark.parametrize(
    "is_connected, complaints, told",
    [
        (True, ["an old one"], (State.READY, "")),
        (False, [], (State.FAILED, "the server is not there")),
        (False, ["refused", "closed"], (State.FAILED, "closed")),
    ],
)
def test_a_connection_says_whether_there_is_a_server(
    is_connected: bool, complaints: list[str], told: tuple[State, str]
) -> None:
    class Client:
        def __init__(self) -> None:
            self.is_connected = is_connected

    connection = Connection(_client=cast("Any", Client()))
    connection.complaints.extend(complaints)
    assert connection.standing == told
