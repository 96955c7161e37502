"""Argument names that a format cannot write plainly: they are quoted, or refused with a code."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ferrule import Reply, ToolCall, ToolChoice, ToolDefinition
from ferrule.core.reply import fold
from ferrule.engines.fake import FakeGenerator
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.errors import FormatError
from ferrule.formats import Parser, all_formats, get_format, parse, render
from ferrule.rules.gbnf import emit_gbnf
from ferrule.rules.lark import emit_lark
from ferrule.rules.matcher import ByteMatcher
from ferrule.wire.format import encoding_of
from ferrule.wire.rule_builder import bind
from rules.gbnf_acceptor import Acceptor
from server.client import gateway_of

BARE = [name for name, form in all_formats().items() if encoding_of(form) in ("Python", "typed literal")]
NAMES = ("x-y", "class", "1a", "x y", "a=b", "a,b)", "(", "{}", 'quo"te', "it's", "back\\slash", "", "é ü", "**")
UNWRITABLE = {"qwen_xml": "a>b", "glm45": "a</arg_key>", "dsml_v4": 'a">', "gemma4": 'a <|"|>'}


def tool_of(names: tuple[str, ...], **others: Any) -> ToolDefinition:
    return ToolDefinition(
        "t", "", {"type": "object", "properties": {name: {"type": "integer"} for name in names}, **others}
    )


@pytest.mark.parametrize("name", BARE)
@pytest.mark.parametrize("key", NAMES)
@pytest.mark.parametrize("is_listed", [True, False], ids=["listed", "additional"])
def test_every_name_is_written_read_and_admitted(name: str, key: str, is_listed: bool) -> None:
    form = get_format(name)
    tool = tool_of((key,)) if is_listed else tool_of(("a",), additionalProperties={"type": "integer"})
    call = ToolCall.of("t", {key: 1}, id=form.ids.sample("t", 0))
    text = render(form, Reply.of(call), [tool])
    assert parse(form, text, [tool]).calls[0].arguments == {key: 1}
    for at in range(len(text)):
        parser = Parser(form, [tool])
        reply = fold([*parser.feed(text[:at]), *parser.feed(text[at:]), *parser.close()])
        assert reply.calls[0].arguments == {key: 1}, text[:at]
    rule = bind(form, [tool], ToolChoice.required(), parallel=False)
    assert ByteMatcher(emit_lark(rule)).accepts(text), text
    assert Acceptor(emit_gbnf(rule).text).accepts(text), text


@pytest.mark.parametrize("name", UNWRITABLE)
def test_a_name_that_the_format_cannot_write_is_refused_with_a_code_and_a_hint(name: str) -> None:
    form, tool = get_format(name), tool_of((UNWRITABLE[name],))
    with pytest.raises(FormatError) as refusal:
        emit_lark(bind(form, [tool], ToolChoice.required()))
    assert refusal.value.code == "unwritable_name"
    assert refusal.value.hint


@pytest.mark.parametrize("name", [*UNWRITABLE, "pythonic"])
def test_the_gateway_never_answers_500_for_a_name(name: str) -> None:
    async def status() -> tuple[int, str]:
        engine = TextEngine(FakeGenerator(["hi"] * 3, targets=("lark",)), TextOptions(format=name))
        async with gateway_of(engine) as client:
            function = {"name": "t", "parameters": tool_of((UNWRITABLE.get(name, "x y"),)).parameters}
            body = {
                "model": "e0",
                "messages": [{"role": "user", "content": "hi"}],
                "tools": [{"type": "function", "function": function}],
            }
            response = await client.post("/v1/chat/completions", body)
            return response.status, response.body.decode()

    code, body = asyncio.run(status())
    assert (code, "unwritable_name" in body) == ((400, True) if name in UNWRITABLE else (200, False)), body
