"""The trace says of each request of a run what it changed in the prompt before it, and who did."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.tools import PLAIN_TEMPLATE
from ferrule.core import byte_cache
from ferrule.core.byte_cache import CacheBudget
from ferrule.core.call import FunctionCall, ToolCall
from ferrule.core.context import CallContext, Principal
from ferrule.core.message import ChatMessage
from ferrule.core.outcome import Answered, Outcome
from ferrule.core.tool import ToolDefinition
from ferrule.engines.fake import FakeGenerator
from ferrule.engines.generator import ModelFacts
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.run.history_key import history_keys
from ferrule.run.ledger.trace import ChangedBy, PromptPrefix
from ferrule.server.observability.prompt_prefix import PromptHistory, PromptParts
from ferrule.sources.source import Source
from lab.prompt_cache import CLIENTS, agent_run
from server.client import Client, gateway_of

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
SYSTEM = "You are an agent. " + "Rules of the house. " * 60 + "Today is Monday."
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
# Drops the reasoning of every turn but the last, as Qwen's and DeepSeek's templates do.
THINKING_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.reasoning_content and loop.index0 > messages|length - 3 %}<think>\n{{ m.reasoning_content }}\n</think>\n"
    "{% endif %}{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>\n{{ c.function | tojson }}\n</tool_call>{% endfor %}"
    "<|im_end|>\n{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


class GrowingSource(Source):
    """Lists its tools in the order of `names`, which may change."""

    def __init__(self, *names: str) -> None:
        self.id = "growing"
        self.names = [*names]

    async def tools(self) -> tuple[ToolDefinition, ...]:
        return tuple(map(ToolDefinition, self.names))

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        return Answered(name)


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": f"{name} a file. " * 20, "input_schema": SCHEMA, **more}


def call(path: str, name: str = "read") -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {{"path": "{path}"}}}}\n</tool_call>'


def body_of(messages: list[Any], tools: list[Any] | None = None) -> dict[str, Any]:
    offered = [tool("read"), tool("write")] if tools is None else tools
    return {"model": "e0", "max_tokens": 99, "system": SYSTEM, "messages": messages, "tools": offered}


async def send(client: Client, body: dict[str, Any]) -> None:
    """Send a request, and add the answer and the results of its calls to the messages."""
    answer = await client.post(MESSAGES, body)
    assert answer.status == 200, answer.body
    content = answer.json()["content"]
    body["messages"].append({"role": "assistant", "content": content})
    results = [
        {"type": "tool_result", "tool_use_id": one["id"], "content": "line\n" * 200}
        for one in content
        if one["type"] == "tool_use"
    ]
    body["messages"].append({"role": "user", "content": results or "Thanks. " * 80})


async def requests_of(client: Client) -> list[dict[str, Any]]:
    await client.gateway.traces.flush()
    (only,) = (await client.get("/v1/traces")).json()["data"]
    return (await client.get(f"/v1/traces/{only['id']}")).json()["requests"]


def text_engine(*texts: str, template: str = PLAIN_TEMPLATE) -> TextEngine:
    return TextEngine(FakeGenerator(texts, ModelFacts(template=template)), TextOptions(format="hermes"))


def prefixes(change: Callable[[dict[str, Any]], None]) -> list[dict[str, Any] | None]:
    """What the trace says of three requests of a run; the client changes the last one."""

    async def story() -> list[dict[str, Any] | None]:
        async with gateway_of(text_engine(call("a"), call("b"), "Done.")) as client:
            body = body_of([{"role": "user", "content": "Read both. " * 60}])
            await send(client, body)
            await send(client, body)
            body = deepcopy(body)
            change(body)
            await send(client, body)
            return [one["prompt_prefix"] for one in await requests_of(client)]

    return asyncio.run(story())


def _new_date(body: dict[str, Any]) -> None:
    body["system"] = SYSTEM.replace("Monday", "Tuesday")


def _other_order(body: dict[str, Any]) -> None:
    body["tools"].reverse()


def _added_tool(body: dict[str, Any]) -> None:
    body["tools"].append(tool("search"))


def _inserted_tool(body: dict[str, Any]) -> None:
    body["tools"].insert(0, tool("search"))


def _removed_tool(body: dict[str, Any]) -> None:
    body["tools"].pop()


def _edited_tool(body: dict[str, Any]) -> None:
    body["tools"][1]["description"] += "!"


def _edited_question(body: dict[str, Any]) -> None:
    body["messages"][0]["content"] += "Now!"


def _cleared_result(body: dict[str, Any]) -> None:
    body["messages"][2]["content"][0]["content"] = "[Old result cleared]"


def _compacted(body: dict[str, Any]) -> None:
    body["messages"][:2] = [{"role": "assistant", "content": [{"type": "text", "text": "I have read."}]}]
    del body["messages"][1]


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "a date in the system's text": (_new_date, "the system message changed at byte 1024"),
    "tools in another order": (_other_order, "tool write was moved before read"),
    "a tool at the end": (_added_tool, "tool search was added"),
    "a tool at the beginning": (_inserted_tool, "tool search was added before read"),
    "a tool removed": (_removed_tool, "tool write was removed"),
    "a description": (_edited_tool, "tool write changed at byte 256"),
    "the question": (_edited_question, "message 1 (user) changed at byte 512"),
    "an old result": (_cleared_result, "message 3 (tool) changed at byte 0"),
    "the beginning summarized": (_compacted, "message 1 (user) is now message 1 (assistant)"),
}


def test_a_run_that_only_appends_changes_nothing() -> None:
    first, *others = prefixes(lambda body: None)
    assert first is None
    assert [(one or {})["changed_by"] for one in others] == ["", ""]
    assert all(one and one["kept_bytes"] == one["previous_bytes"] > 2_000 for one in others)


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_client_changed_is_named(name: str) -> None:
    change, words = CHANGES[name]
    _, before, last = prefixes(change)
    assert before is not None
    assert before["changed_by"] == ""
    assert last is not None
    assert (last["changed_by"], last["changed"]) == ("client", words)
    assert last["kept_bytes"] < last["previous_bytes"]


def test_a_tool_that_a_reference_loads_is_the_gateways_change() -> None:
    async def story() -> None:
        async with gateway_of(text_engine(call("a", "find"), "Done.")) as client:
            tools = [tool("find"), tool("deep", defer_loading=True)]
            body = body_of([{"role": "user", "content": "Find a tool."}], tools)
            await send(client, body)
            body["messages"][-1]["content"][0]["content"] = [{"type": "tool_reference", "tool_name": "deep"}]
            await send(client, body)
            last = (await requests_of(client))[-1]["prompt_prefix"]
            assert last["changed_by"] == "gateway"
            assert last["changed"] == "tool deep was added (it was deferred, and is loaded now)"

    asyncio.run(story())


def test_reasoning_that_the_template_drops_is_the_templates_change() -> None:
    async def story() -> None:
        engine = text_engine(call("a"), call("b"), "Done.", template=THINKING_TEMPLATE)
        async with gateway_of(engine) as client:
            messages: list[Any] = [{"role": "user", "content": "Read both. " * 60}]
            for _ in range(3):
                reply = (await client.post(CHAT, {"model": "e0", "messages": messages})).json()["choices"][0]["message"]
                thought = {"reasoning_content": "I think about it. " * 80}
                messages += [{**reply, **thought}, {"role": "user", "content": "Go on. " * 80}]
            changes = [one["prompt_prefix"] for one in await requests_of(client)]
            assert changes[0] is None
            assert (changes[1]["changed_by"], changes[2]["changed_by"]) == ("", "template")
            assert changes[2]["changed"].startswith("the rendered prompt changed at byte")

    asyncio.run(story())


def test_a_new_tool_of_the_gateway_is_the_gateways_change_and_stands_behind_the_others() -> None:
    async def story() -> None:
        source = GrowingSource("zebra")
        async with gateway_of(text_engine("Hello.", "Done."), sources=[source]) as client:
            body: dict[str, Any] = {"model": "e0", "max_tokens": 99, "messages": [{"role": "user", "content": "Hi."}]}
            await send(client, body)
            source.names.insert(0, "apple")
            await client.gateway.tool_catalog.refresh()
            assert [*client.gateway.tool_catalog.tools] == ["zebra", "apple"]
            await send(client, body)
            last = (await requests_of(client))[-1]["prompt_prefix"]
            assert (last["changed_by"], last["changed"]) == ("gateway", "tool apple was added")

    asyncio.run(story())


def test_the_gateways_tools_stand_in_one_order_however_their_sources_list_them() -> None:
    async def order(*names: str) -> list[str]:
        async with gateway_of(text_engine(), sources=[GrowingSource(*names)]) as client:
            return [*client.gateway.tool_catalog.tools]

    assert asyncio.run(order("one", "two")) == asyncio.run(order("two", "one"))


def test_a_run_whose_history_was_edited_stays_one_trace() -> None:
    changes = prefixes(_cleared_result)
    # `requests_of` reads the only trace that there is.
    assert len(changes) == 3


def test_a_history_with_another_reply_than_the_models_is_compared_too() -> None:
    async def story() -> None:
        async with gateway_of(text_engine(*["Hm."] * 6)) as client:
            for number, body in enumerate(agent_run(300, 3)):
                _, change = CLIENTS["time"]
                change(body, number)
                assert (await client.post(MESSAGES, {**body, "model": "e0", "stream": False})).status == 200
            await client.gateway.traces.flush()
            traces = (await client.get("/v1/traces")).json()["data"]
            requests = [(await client.get(f"/v1/traces/{one['id']}")).json()["requests"] for one in traces]
            changes = [one["prompt_prefix"] for group in reversed(requests) for one in group]
            assert changes[0] is None
            assert [one["changed"] for one in changes[1:]] == ["the system message changed at byte 0"] * 2

    asyncio.run(story())


def test_the_same_run_made_again_is_not_compared_with_the_first_one() -> None:
    async def story() -> None:
        async with gateway_of(text_engine(*["Hm.", "Done."] * 2)) as client:
            for system in ("It is Monday.", "It is Tuesday."):
                body = {**body_of([{"role": "user", "content": "Read it."}]), "system": system}
                await send(client, body)
                await send(client, body)
            await client.gateway.traces.flush()
            traces = (await client.get("/v1/traces")).json()["data"]
            requests = [
                one for trace in traces for one in (await client.get(f"/v1/traces/{trace['id']}")).json()["requests"]
            ]
            requests.sort(key=lambda one: one["at"])
            assert requests[1]["prompt_prefix"]["changed_by"] == ""
            assert requests[3]["prompt_prefix"]["changed_by"] == ""

    asyncio.run(story())


ANN = Principal("ann", "acme")
ASCII = st.text(st.characters(codec="ascii"), max_size=600)


def _call_of(id: str) -> ChatMessage:
    return ChatMessage.assistant("", [ToolCall(id, FunctionCall("read", "{}"))])


def _compare(history: PromptHistory, messages: list[ChatMessage], reply: ChatMessage) -> PromptPrefix | None:
    parts = PromptParts(messages, [ToolDefinition("read")], messages)
    return history.compare(parts, ANN, history_keys(messages, reply), reply)[0]


@given(texts=st.lists(ASCII, min_size=1, max_size=6), number=st.integers(0, 5), at=st.integers(0, 600))
def test_one_changed_character_is_found_in_its_message_and_block(texts: list[str], number: int, at: int) -> None:
    number %= len(texts)
    at %= len(texts[number]) + 1
    history, reply = PromptHistory(), _call_of("call_1")
    assert _compare(history, [ChatMessage.user(text) for text in texts], reply) is None
    texts[number] = texts[number][:at] + "\N{SNOWMAN}" + texts[number][at:]
    change = _compare(history, [*map(ChatMessage.user, texts), reply], _call_of("call_2"))
    assert change is not None
    assert (change.by, change.what) == (ChangedBy.CLIENT, f"message {number} (user) changed at byte {at // 256 * 256}")


@given(texts=st.lists(ASCII, min_size=1, max_size=6), more=st.lists(ASCII, max_size=3))
def test_what_is_only_appended_is_no_change(texts: list[str], more: list[str]) -> None:
    history, reply = PromptHistory(), _call_of("call_1")
    messages = [ChatMessage.user(text) for text in texts]
    _compare(history, messages, reply)
    change = _compare(history, [*messages, reply, *map(ChatMessage.user, more)], _call_of("call_2"))
    assert change is not None
    assert change.by is ChangedBy.NOBODY


@given(before=st.binary(max_size=5_000), more=st.binary(max_size=600), at=st.integers(0, 5_000))
def test_a_rendered_prompt_is_compared_up_to_its_end(before: bytes, more: bytes, at: int) -> None:
    parts = PromptParts()
    text, after = before.decode("latin-1"), more.decode("latin-1")
    parts.add_prompt(text)
    parts.add_prompt(text + after)
    assert parts.round_change is None
    at %= len(text) + 1
    start = len(text[:at].encode())
    parts.add_prompt(text[:at] + "\N{SNOWMAN}" + text[at:] + after)
    if start + 3 * 256 < len((text + after).encode()):
        assert parts.round_change is not None
        assert parts.round_change.kept_bytes == start // 256 * 256


def test_outlines_are_counted_in_the_memory_that_all_caches_share(monkeypatch: pytest.MonkeyPatch) -> None:
    # That of this process may be full of what other tests did, and then gives as much as it takes.
    monkeypatch.setattr(byte_cache, "PROCESS_BUDGET", budget := CacheBudget())
    history = PromptHistory()
    before = budget.size
    messages = [ChatMessage.user("word " * 20_000), *[ChatMessage.user("x")] * 100]
    _compare(history, messages, ChatMessage.assistant("Yes."))
    grown = budget.size - before
    # What the 101 messages take besides the checksums, for each of the two keys.
    assert 0 < grown < 60_000
    before = budget.size
    text = "words " * 700_000
    _compare(history, [ChatMessage.user(text), *messages[1:]], ChatMessage.assistant("No."))
    # A checksum of 4 bytes for 256, twice.
    assert budget.size - before < grown + len(text) / 16


def test_what_is_not_json_is_recorded_too() -> None:
    """The request is refused; its record must not take those of other requests with it."""

    def parts(limit: float) -> PromptParts:
        schema = {"type": "object", "properties": {"n": {"maximum": limit}}}
        return PromptParts((ChatMessage.user("Hi."),), (ToolDefinition("t", parameters=schema),))

    history = PromptHistory()
    principal = Principal("acme", "ann")
    for limit in (float("inf"), float("nan"), 1.0):
        history.compare(parts(limit), principal, history_keys((ChatMessage.user("Hi."),)), None)
