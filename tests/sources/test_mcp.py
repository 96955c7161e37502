"""Several MCP servers as one source: a server that fails does not affect the others."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ferrule.core.context import CallContext
from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.core.tool import ToolDefinition
from ferrule.sources.mcp import client
from ferrule.sources.mcp.access import ToolAccess
from ferrule.sources.mcp.config import HttpTransport, McpConfig, Server, StdioTransport, Timeouts
from ferrule.sources.mcp.pins import Pins
from ferrule.sources.mcp.server_connection import ServerConnection, SourceState
from ferrule.sources.mcp.servers import McpServers, prefixes
from ferrule.sources.mcp.start_limit import StartLimit
from ferrule.sources.mcp.tool_list import tool_of
from ferrule.sources.status import Trust
from sources.mcp_servers import SWIFT, call_tool, plain, tool
from waiting import until

Story = Callable[[McpServers], Coroutine[Any, Any, None]]


def run_story(servers: list[Server], story: Story, pins: Pins | None = None) -> McpServers:
    async def work() -> McpServers:
        async with asyncio.timeout(60):
            async with McpServers(servers, pins=pins, options=SWIFT, settle_seconds=30) as source:
                await story(source)
        return source

    return asyncio.run(work())


def outcome(named: dict[str, Any], timeouts: Timeouts | None = None, **arguments: Any) -> Outcome:
    actual: list[Outcome] = []

    async def story(source: McpServers) -> None:
        actual.append(await call_tool(source, f"s_{named['name']}", **arguments))

    run_story([plain("s", [named], timeouts=timeouts)], story)
    return actual[0]


async def names(source: McpServers) -> list[str]:
    return [one.name for one in await source.tools()]


def test_a_list_in_pages_is_read_whole_and_a_malformed_tool_costs_only_itself() -> None:
    async def story(source: McpServers) -> None:
        assert await names(source) == ["s_a", "s_b", "s_c"]
        assert source.notices == (
            "s: tool 2 in the list has no name and is not offered",
            "s: odd has no input schema and is not offered",
        )

    broken = [{"description": "no name"}, {"name": "odd", "inputSchema": None}]
    run_story(
        [plain("s", [tool("a"), broken[0]], [broken[1], tool("b", outputSchema={"type": "array"})], [tool("c")])], story
    )


def test_a_call_carries_its_arguments_and_its_id_as_idempotency_key() -> None:
    answer = outcome(tool("echo"), text="hi")
    assert isinstance(answer, Answered)
    assert answer.content["arguments"] == {"text": "hi"}
    assert answer.content["meta"]["ferrule.dev/idempotency-key"] == "c1"


def test_a_hint_to_read_only_counts_only_from_a_trusted_server() -> None:
    tools = [tool("read", annotations={"readOnlyHint": True}), tool("write", annotations={"destructiveHint": False})]

    async def story(source: McpServers) -> None:
        effects = {one.name: one.side_effects for one in await source.tools()}
        assert effects == {"near_read": False, "near_write": True, "far_read": True, "far_write": True}

    run_story([plain("near", tools, trusted=True), plain("far", tools)], story)


def test_servers_that_fail_or_hang_are_reported_and_the_others_work() -> None:
    servers = [
        plain("good", [tool("a")]),
        Server("missing", StdioTransport("no-such-program-anywhere")),
        Server("ends", StdioTransport(sys.executable, ("-c", "raise SystemExit('I need a key')"))),
        Server("hangs", StdioTransport(sys.executable, ("-c", "import sys; sys.stdin.read()")), timeouts=Timeouts(0.3)),
        Server("nobody", HttpTransport("http://127.0.0.1:9/mcp")),
    ]

    async def story(source: McpServers) -> None:
        await until(lambda: all(one.state != "connecting" for one in source.servers))
        assert await names(source) == ["good_a"]
        assert isinstance(await call_tool(source, "good_a"), Answered)
        notices = {one.name: " ".join(one.notices) for one in source.servers}
        assert not notices["good"]
        assert "cannot be started" in notices["missing"]
        assert "stderr: I need a key" in notices["ends"]
        assert "connecting took more than 0.3 seconds" in notices["hangs"]
        assert "cannot be reached" in notices["nobody"]

    source = run_story(servers, story)
    assert {one.state for one in source.servers} == {SourceState.CLOSED.value}


def test_a_server_that_dies_in_a_call_leaves_it_unknown_and_comes_back() -> None:
    async def story(source: McpServers) -> None:
        first = await call_tool(source, "s_die")
        assert isinstance(first, Unknown)
        after = await call_tool(source, "s_echo")
        assert isinstance(after, NotDelivered)
        await until(lambda: source.servers[0].state == "failed")
        await until(lambda: source.servers[0].state == "ready")
        assert isinstance(await call_tool(source, "s_echo"), Answered)

    run_story([plain("s", [tool("die"), tool("echo")])], story)


def test_a_list_that_cannot_be_read_leaves_a_running_call_alone() -> None:
    assert outcome(tool("outlive")) == Answered("late")


def test_a_call_that_is_never_answered_is_unknown_and_the_connection_stays() -> None:
    async def story(source: McpServers) -> None:
        lost = await call_tool(source, "s_silent")
        assert isinstance(lost, Unknown)
        assert lost.code == "timeout"
        soon, over = (CallContext(deadline=time.time() + seconds) for seconds in (0.05, -1))
        assert isinstance(await call_tool(source, "s_silent", soon), Unknown)
        assert isinstance(await call_tool(source, "s_echo", over), NotDelivered)
        assert isinstance(await call_tool(source, "s_echo"), Answered)

    run_story([plain("s", [tool("silent"), tool("echo")], timeouts=Timeouts(call=0.2))], story)


@pytest.mark.parametrize(
    "named, arguments, code",
    [
        ("refuse", {"code": -32602}, "bad_request"),
        ("refuse", {"code": -32601}, "bad_request"),
        ("refuse", {"code": -32603}, "tool_failed"),
        # A server may use the code that the SDK uses for a lost connection.
        ("refuse", {"code": -32000}, "tool_failed"),
        # But it may not claim that a call was not sent.
        ("refuse", {"code": 71_001}, "tool_failed"),
        ("nonsense", {}, "bad_answer"),
        ("flood", {"bytes": 100_000}, "too_large"),
    ],
)
def test_what_a_server_answers_amiss_is_an_answer_with_an_error(
    named: str, arguments: dict[str, Any], code: str
) -> None:
    answer = outcome(tool(named), **arguments)
    assert isinstance(answer, Answered)
    assert (answer.is_error, answer.code) == (True, code)


def test_an_answer_that_does_not_fit_its_own_schema_says_so() -> None:
    schema = {"type": "object", "properties": {"total": {"type": "integer"}}}
    answer = outcome(tool("misfit", outputSchema=schema))
    assert isinstance(answer, Answered)
    assert (answer.is_error, answer.code) == (True, "bad_answer")
    assert "/total" in answer.content


def test_a_definition_that_changes_is_quarantined_until_it_is_pinned_again() -> None:
    async def story(source: McpServers) -> None:
        news = source.changes()
        waiting = asyncio.ensure_future(anext(news))
        await asyncio.sleep(0)
        await call_tool(source, "s_change")
        await waiting
        await news.aclose()
        assert await names(source) == ["s_change"]
        assert source.notices == (
            "s: 'echo' has changed since it was pinned and is not offered until it is pinned again",
        )
        refused = await call_tool(source, "s_echo")
        assert isinstance(refused, NotDelivered)
        assert refused.code == "quarantined"
        assert source.quarantined == ("s_echo",)
        source.repin("s", "echo")
        assert await names(source) == ["s_echo", "s_change"]
        assert isinstance(await call_tool(source, "s_echo"), Answered)

    run_story([plain("s", [tool("echo", description="Says it again."), tool("change")])], story)


def test_a_servers_status_has_the_definitions_of_changed_tools_before_and_after() -> None:
    async def story(source: McpServers) -> None:
        await call_tool(source, "s_change")
        await until(lambda: bool(source.quarantined))
        ready, missing = source.statuses
        assert (ready.name, ready.kind, ready.state, ready.trust) == ("s", "mcp", SourceState.READY, Trust.TRUSTED)
        assert (ready.reason, ready.tools) == ("", ("s_change",))
        (entry,) = ready.quarantined
        assert entry.tool == "s_echo"
        assert entry.reason == "'echo' has changed since it was pinned and is not offered until it is pinned again"
        assert entry.before is not None
        assert entry.before.description == "Says it again."
        assert entry.now.description != entry.before.description
        assert entry.before.fingerprint == source.pins.of("s", "echo") != entry.now.fingerprint
        assert (missing.name, missing.trust, missing.tools) == ("none", Trust.UNTRUSTED, ())
        assert missing.state is SourceState.FAILED
        assert missing.reason == "cannot be started: there is no program '/no/such/program'"
        source.repin("s", "echo")
        assert source.statuses[0].quarantined == ()

    run_story(
        [
            plain("s", [tool("echo", description="Says it again."), tool("change")], trusted=True),
            Server("none", StdioTransport("/no/such/program")),
        ],
        story,
    )


def test_pins_that_were_saved_as_hashes_alone_learn_what_they_are_of() -> None:
    async def nothing(source: McpServers) -> None:
        await source.tools()

    server = plain("s", [tool("echo")])
    previous = run_story([server], nothing).pins
    learnt = run_story([server], nothing, Pins(previous.hashes)).pins
    assert learnt == previous
    assert learnt.pinned_text("s", "echo")


def test_a_change_that_nobody_tells_of_is_found_by_reading_the_list_again() -> None:
    async def work() -> None:
        often = replace(SWIFT, refresh=0.02, min_gap=0.01)
        async with McpServers(
            [plain("s", [tool("echo"), tool("change_quietly")])], options=often, settle_seconds=30
        ) as source:
            await call_tool(source, "s_change_quietly")
            await until(lambda: bool(source.notices))
            assert "has changed" in source.notices[0]

    asyncio.run(work())


def test_saved_pins_hold_against_another_definition_and_another_program_under_the_name() -> None:
    async def nothing(source: McpServers) -> None:
        await source.tools()

    before = run_story([plain("s", [tool("echo")])], nothing)
    pins = Pins.from_json(before.pins.to_json())

    async def quarantined(source: McpServers) -> None:
        assert await names(source) == []

    async def offered(source: McpServers) -> None:
        assert await names(source) == ["s_echo"]

    run_story([plain("s", [tool("echo")])], offered, pins)
    run_story([plain("s", [tool("echo", description="Other.")])], quarantined, pins)


def test_names_that_would_collide_are_made_unique_and_reach_their_own_tools() -> None:
    server_prefixes = prefixes(["a", "a_"])
    assert server_prefixes["a"] == "a"

    async def story(source: McpServers) -> None:
        offered: dict[str, ToolDefinition] = {one.name: one for one in await source.tools()}
        assert len(offered) == 2
        other = next(name for name in offered if name != "a__b")
        for name, inner in (("a__b", "_b"), (other, "b")):
            answer = await call_tool(source, name, at=inner)
            assert isinstance(answer, Answered)
            assert answer.content["arguments"] == {"at": inner}
        assert source.notices == (f"a_: 'b' is offered as {other}",)

    run_story([plain("a", [tool("_b")]), plain("a_", [tool("b")])], story)


def test_a_tool_listed_twice_with_two_meanings_is_not_offered() -> None:
    async def story(source: McpServers) -> None:
        assert await names(source) == ["s_fine"]
        assert "listed more than once" in source.notices[0]

    run_story([plain("s", [tool("x"), tool("x", description="Other."), tool("fine"), tool("fine")])], story)


def test_a_list_that_does_not_end_costs_its_server_only() -> None:
    async def story(source: McpServers) -> None:
        await until(lambda: any("its tool list has more than" in notice for notice in source.notices))
        assert await names(source) == ["good_a"]

    run_story([plain("good", [tool("a")]), plain("endless", *([tool(f"t{n}")] for n in range(300)))], story)


def test_a_tool_that_needs_a_task_is_offered() -> None:
    async def story(source: McpServers) -> None:
        assert await names(source) == ["s_x"]
        assert source.notices == ()

    run_story([plain("s", [tool("x", execution={"taskSupport": "required"})])], story)


def test_what_was_wrong_with_the_configuration_is_among_the_notices() -> None:
    assert McpServers(McpConfig(faults=("x: it is named twice",))).notices == ("x: it is named twice",)


def test_a_tool_that_is_not_there_is_not_delivered() -> None:
    async def story(source: McpServers) -> None:
        assert isinstance(await call_tool(source, "s_nothing"), NotDelivered)

    run_story([plain("s", [tool("a")])], story)


def test_the_operator_says_which_tools_are_offered_and_which_only_read() -> None:
    tools = [tool("get_a"), tool("get_secret"), tool("put_a"), tool("drop")]
    access = ToolAccess(allow=("get_*", "put_*"), deny=("*_secret", "gone_*"), read_only=("get_*",))

    async def story(source: McpServers) -> None:
        effects = {one.name: one.side_effects for one in await source.tools()}
        assert effects == {"s_get_a": False, "s_put_a": True}
        assert source.notices == ("s: deny 'gone_*' matches no tool",)
        for name in ("s_get_secret", "s_drop"):
            refused = await call_tool(source, name)
            assert isinstance(refused, NotDelivered)
            assert "not allowed" in refused.reason
        # What is not offered is not accepted either.
        assert set(source.pins.hashes["s"]) == {"get_a", "put_a"}

    run_story([replace(plain("s", tools), access=access)], story)


def test_a_program_that_is_missing_is_named_with_what_to_install(tmp_path: Path) -> None:
    script = tmp_path / "server"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    (tmp_path / "data").write_text("")
    nowhere = {"PATH": str(tmp_path)}
    servers = [
        Server("npx", StdioTransport("npx", ("-y", "a-server"), nowhere)),
        Server("other", StdioTransport("some-server", (), nowhere)),
        Server("script", StdioTransport("server", (), nowhere)),
        Server("data", StdioTransport(str(tmp_path / "data"))),
        Server("cwd", StdioTransport(sys.executable, cwd=str(tmp_path / "none"))),
    ]

    async def story(source: McpServers) -> None:
        notices = {one.name: " ".join(one.notices) for one in source.servers}
        assert "there is no program 'npx' in the PATH; install Node.js" in notices["npx"]
        assert "there is no program 'some-server' in the PATH; install it" in notices["other"]
        assert f"the program that {script} names in its first line is missing" in notices["script"]
        assert "may not be executed" in notices["data"]
        assert "none' is not a directory" in notices["cwd"]

    run_story(servers, story)


def test_a_list_that_has_not_changed_is_neither_converted_nor_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    converted: list[str] = []

    def counted(raw: Any) -> Any:
        converted.append(raw["name"])
        return tool_of(raw)

    monkeypatch.setattr(client, "tool_of", counted)

    async def work() -> None:
        pages = [[tool("echo"), tool("change")], [tool("b")]]
        async with McpServers([plain("s", *pages)], options=SWIFT, settle_seconds=30) as source:
            (connection,) = source._connections  # pyright: ignore[reportPrivateUsage]
            assert isinstance(connection, ServerConnection)
            session = connection.session
            assert session is not None
            before, definitions = connection.tools, await source.tools()
            for _ in range(3):
                again, _ = await session.tools()
                assert all(one is other for one, other in zip(again, before, strict=True))
            assert all(one is other for one, other in zip(await source.tools(), definitions, strict=True))
            assert converted == ["echo", "change", "b"]
            await call_tool(source, "s_change")
            await until(lambda: bool(source.quarantined))
            # The page that changed, and not the other one.
            assert converted == ["echo", "change", "b", "echo", "change"]

    asyncio.run(work())


def test_servers_that_die_together_come_back_at_the_pace_of_the_process() -> None:
    servers = [plain(f"s{number}", [tool("die"), tool("echo")]) for number in range(6)]
    starts: list[float] = []

    class Noted(StartLimit):
        async def wait(self) -> None:
            await super().wait()
            starts.append(time.monotonic())

    async def work() -> None:
        options = replace(SWIFT, restarts=Noted(4))
        async with McpServers(servers, options=options, settle_seconds=30) as source:
            assert not starts, "the first start of a server waits for nobody"
            await asyncio.gather(*(call_tool(source, f"{server.name}_die") for server in servers))
            await until(lambda: len(starts) >= 6 and all(one.state == "ready" for one in source.servers))

    asyncio.run(work())
    assert starts[4] - starts[0] >= 0.99
    assert starts[5] - starts[1] >= 0.99
