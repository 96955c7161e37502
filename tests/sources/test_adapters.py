"""Adapters: each changes one thing about a source and nothing else."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ferrule import ToolDefinition
from ferrule.core.context import CallContext, Principal
from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.sources.adapters import (
    ApprovalAdapter,
    CacheAdapter,
    FilterAdapter,
    PrefixAdapter,
    RenameAdapter,
    TimeoutAdapter,
)
from ferrule.sources.combined_sources import CombinedSources
from ferrule.sources.fake import FakeSource
from ferrule.sources.functions import Functions
from ferrule.sources.source import Source
from waiting import until

READ = ToolDefinition("read")
WRITE = ToolDefinition("write", side_effects=True)
HERE = CallContext(conversation="one")


def fake(*tools: ToolDefinition, id: str = "files") -> FakeSource:
    return FakeSource(tools or (READ, WRITE), lambda name, arguments, context: Answered(name), id=id)


def names(source: Source) -> list[str]:
    return [tool.name for tool in asyncio.run(source.tools())]


def call_tool(source: Source, name: str, arguments: Mapping[str, Any] | None = None, at: CallContext = HERE) -> Outcome:
    return asyncio.run(source.call(name, arguments or {}, at))


def test_a_prefix_is_shown_and_taken_off_again() -> None:
    source = PrefixAdapter(fake())
    assert names(source) == ["files_read", "files_write"]
    assert call_tool(source, "files_read") == Answered("read")
    assert isinstance(call_tool(source, "read"), NotDelivered)


@given(st.text("ab_", min_size=1, max_size=4), st.text("ab_", min_size=1, max_size=4))
def test_a_name_with_the_separator_in_it_comes_back_whole(prefix: str, name: str) -> None:
    inner = fake(ToolDefinition(name), id=prefix)
    source = PrefixAdapter(inner)
    (visible,) = names(source)
    assert call_tool(source, visible) == Answered(name)


def test_two_tools_never_answer_to_one_name() -> None:
    source = RenameAdapter(fake(), lambda name: "same")
    assert names(source) == ["same"]
    assert call_tool(source, "same") == Answered("read")


def test_what_is_not_shown_cannot_be_called() -> None:
    source = FilterAdapter(fake(), lambda tool: not tool.side_effects)
    assert names(source) == ["read"]
    assert isinstance(call_tool(source, "write"), NotDelivered)


def test_a_timeout_is_unknown_only_for_a_tool_with_side_effects() -> None:
    class Slow(FakeSource):
        async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
            await asyncio.sleep(60)
            return Answered("late")

    source = TimeoutAdapter(Slow((READ, WRITE)), 0.01)
    read, write = call_tool(source, "read"), call_tool(source, "write")
    assert isinstance(read, Answered)
    assert read.is_error
    assert isinstance(write, Unknown)


def test_a_tool_can_be_made_to_need_approval() -> None:
    source = ApprovalAdapter(fake(), lambda tool: tool.name == "read")
    assert [tool.side_effects for tool in asyncio.run(source.tools())] == [True, True]


def test_the_same_reading_in_one_conversation_happens_once_and_a_writing_every_time() -> None:
    inner = fake()
    source = CacheAdapter(inner)
    for name in ("read", "read", "write", "write"):
        call_tool(source, name, {"path": "a"})
    call_tool(source, "read", {"path": "b"})
    call_tool(source, "read", {"path": "a"}, CallContext(conversation="two"))
    assert [(name, arguments["path"]) for name, arguments, _ in inner.calls] == [
        ("read", "a"),
        ("write", "a"),
        ("write", "a"),
        ("read", "b"),
        ("read", "a"),
    ]


def test_an_error_is_not_remembered() -> None:
    inner = FakeSource((READ,), lambda name, arguments, context: Answered("no", is_error=True))
    source = CacheAdapter(inner)
    call_tool(source, "read")
    call_tool(source, "read")
    assert len(inner.calls) == 2


def test_what_a_call_would_be_refused_for_is_known_through_adapters_and_under_other_names() -> None:
    opened = threading.Event()

    def hang() -> None:
        """Hangs."""
        opened.wait()

    async def scenario() -> None:
        source = CombinedSources([PrefixAdapter(Functions([hang], threads=1), "slow")])
        await source.tools()
        context = CallContext(deadline=time.time())
        assert source.refusal("slow_hang", context) is None
        call = asyncio.ensure_future(source.call("slow_hang", {}, context))
        await until(lambda: [load.hung for load in source.loads] == [1])
        refusal = source.refusal("slow_hang", context)
        assert refusal is not None
        assert refusal.code == "tool_busy"
        assert source.refusal("slow_hang", CallContext(principal=Principal("eve", "evil"))) is None
        opened.set()
        await call

    asyncio.run(scenario())
