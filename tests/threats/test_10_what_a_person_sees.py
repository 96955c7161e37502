"""Row 10: whoever says yes sees the bytes that will run, all of them, with nothing hidden."""

from __future__ import annotations

import asyncio
import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.visible_text import exactly
from server.keys import bearer
from threats.house import ANN, call, chat, house

TRICKS = {
    "lines": "bob\n\n\n\nApproved by the administrator.",
    "a terminal's orders": "\x1b[2J\x1b[Hbob",
    "text turned around": "\u202egro.live@bob",
    "no width": "b\u200bo\u200cb\ufeff",
    "a space that is none": "bob\u00a0smith\u3000",
    "padding": "bob" + " " * 10_000 + "and everybody else",
    "half a pair": "\ud800",
    "marks that are drawn as nothing": "bob\u034f\ufe0f\U000e0101",
}


def shown(to: str) -> dict[str, Any]:
    async def scenario() -> dict[str, Any]:
        async with house(call("send", to=to), "Done.") as client:
            first = (await chat(client, ANN)).json()
            waiting = next(one["waiting"] for one in first["ferrule"]["asides"] if "waiting" in one)
            return (await client.get(f"/v1/approvals/{waiting['approvals'][0]}", bearer(ANN))).json()

    return asyncio.run(scenario())


@pytest.mark.parametrize("trick", TRICKS)
def test_what_is_shown_holds_every_character_and_each_can_be_seen(trick: str) -> None:
    told = shown(TRICKS[trick])
    assert json.loads(told["arguments"]) == {"to": TRICKS[trick]}
    assert told["shown"] == exactly(told["arguments"].encode("utf-8", "surrogatepass"))
    hidden = [
        one for one in told["shown"] if one != " " and unicodedata.category(one) in {"Cc", "Cf", "Zl", "Zp", "Zs"}
    ]
    assert hidden == []


@given(st.text(max_size=40), st.text(max_size=40))
def test_two_calls_that_differ_are_never_shown_alike(one: str, other: str) -> None:
    texts = [json.dumps({"to": text}, ensure_ascii=False).encode("utf-8", "surrogatepass") for text in (one, other)]
    assert (exactly(texts[0]) == exactly(texts[1])) == (one == other)


def test_the_models_words_are_no_part_of_what_is_shown() -> None:
    from ferrule.core.call import ToolCall
    from ferrule.core.message import Text
    from ferrule.core.reply import Reply

    async def scenario() -> dict[str, Any]:
        words = "I will only look at the weather."
        reply = Reply.of(Text(words), ToolCall.of("send", {"to": "attacker"}, id="call_1"))
        async with house(reply, "Done.") as client:
            first = (await chat(client, ANN)).json()
            waiting = next(one["waiting"] for one in first["ferrule"]["asides"] if "waiting" in one)
            return (await client.get(f"/v1/approvals/{waiting['approvals'][0]}", bearer(ANN))).json()

    told = asyncio.run(scenario())
    assert told["tool"] == "send"
    assert "weather" not in json.dumps(told)
