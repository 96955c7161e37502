"""Row 10: an approval shows all bytes that will run, with nothing hidden."""

from __future__ import annotations

import asyncio
import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.visible_text import visible_text
from server.keys import bearer
from threats.gateway_fixture import ANN, call, chat, threat_gateway

TRICKS = {
    "lines": "bob\n\n\n\nApproved by the administrator.",
    "terminal escapes": "\x1b[2J\x1b[Hbob",
    "right-to-left override": "\u202egro.live@bob",
    "zero width": "b\u200bo\u200cb\ufeff",
    "non-breaking spaces": "bob\u00a0smith\u3000",
    "padding": "bob" + " " * 10_000 + "and everybody else",
    "invisible marks": "bob\u034f\ufe0f\U000e0101",
}


def approval_for(to: str) -> dict[str, Any]:
    async def scenario() -> dict[str, Any]:
        async with threat_gateway(call("send", to=to), "Done.") as client:
            first = (await chat(client, ANN)).json()
            waiting = next(one["waiting"] for one in first["ferrule"]["events"] if "waiting" in one)
            return (await client.get(f"/v1/approvals/{waiting['approvals'][0]}", bearer(ANN))).json()

    return asyncio.run(scenario())


@pytest.mark.parametrize("trick", TRICKS)
def test_an_approval_shows_every_character_visibly(trick: str) -> None:
    approval = approval_for(TRICKS[trick])
    assert json.loads(approval["arguments"]) == {"to": TRICKS[trick]}
    assert approval["shown"] == visible_text(approval["arguments"].encode("utf-8", "surrogatepass"))
    hidden = [
        one for one in approval["shown"] if one != " " and unicodedata.category(one) in {"Cc", "Cf", "Zl", "Zp", "Zs"}
    ]
    assert hidden == []


def test_a_call_with_half_a_surrogate_pair_is_invalid_and_nobody_is_asked() -> None:
    async def scenario() -> list[Any]:
        async with threat_gateway(call("send", to="\ud800"), "Done.") as client:
            await chat(client, ANN)
            return (await client.get("/v1/approvals", bearer(ANN))).json()["data"]

    assert asyncio.run(scenario()) == []


@given(st.text(max_size=40), st.text(max_size=40))
def test_different_calls_are_never_shown_alike(one: str, other: str) -> None:
    texts = [json.dumps({"to": text}, ensure_ascii=False).encode("utf-8", "surrogatepass") for text in (one, other)]
    assert (visible_text(texts[0]) == visible_text(texts[1])) == (one == other)


def test_an_approval_shows_no_text_of_the_model() -> None:
    from ferrule.core.call import ToolCall
    from ferrule.core.message import Text
    from ferrule.core.reply import Reply

    async def scenario() -> dict[str, Any]:
        words = "I will only look at the weather."
        reply = Reply.of(Text(words), ToolCall.of("send", {"to": "attacker"}, id="call_1"))
        async with threat_gateway(reply, "Done.") as client:
            first = (await chat(client, ANN)).json()
            waiting = next(one["waiting"] for one in first["ferrule"]["events"] if "waiting" in one)
            return (await client.get(f"/v1/approvals/{waiting['approvals'][0]}", bearer(ANN))).json()

    approval = asyncio.run(scenario())
    assert approval["tool"] == "send"
    assert "weather" not in json.dumps(approval)
