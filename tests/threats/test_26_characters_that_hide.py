"""Row 26: every hidden character in every field that a person approves is visible, in the terminal as in the APIs."""

from __future__ import annotations

import asyncio
import io
import json
import sys
import unicodedata
from dataclasses import fields, replace

import pytest

from ferrule.cli import approvals
from ferrule.cli.chat_approval import ApprovalMode, ChatApproval
from ferrule.cli.chat_input import LineInput
from ferrule.core.call import FunctionCall, ToolCall
from ferrule.core.visible_text import BLANK_RANGES, is_hidden, visible
from ferrule.run.journal import Decision
from ferrule.run.ledger.ledger import Approval, ApprovalState

# All but the private, unassigned and surrogate characters, which are too many: some of each.
_RARE = {"Co", "Cn", "Cs"}
HIDDEN = [
    *(one for one in map(chr, range(sys.maxunicode + 1)) if is_hidden(one) and unicodedata.category(one) not in _RARE),
    *("\ue000", "\U000f0000", "\U0010fffd", "\u0378", "\ufdd0", "\uffff", "\ud800", "\udfff"),
]
APPROVAL = Approval(
    *("id", "conversation", "call", "tenant", "principal", "tool", "fingerprint", b"{}", "sha", "binding"),
    *(ApprovalState.PENDING, 0.0, 9e9, "", None, ""),
)
TEXT_FIELDS = ("conversation", "call_id", "tenant", "principal", "tool", "why", "decided_by")


def assert_visible(shown: str) -> None:
    lines = shown.split("\n")
    assert not [hex(ord(one)) for line in lines for one in line if is_hidden(one)]


def test_the_table_has_what_the_attacks_use() -> None:
    assert {"\u200b", "\u00a0", "\u202e", "\u2066", "\U000e0041", "\ufe0f", "\u3164", "\u2060", "\r", "\x1b"} <= set(
        HIDDEN
    )
    assert all(is_hidden(chr(first)) and is_hidden(chr(last)) for first, last in BLANK_RANGES)


async def ask_in_chat(call: ToolCall) -> Decision:
    return await ChatApproval(ApprovalMode.ASK, LineInput().ask).decide(call)


@pytest.mark.parametrize("place", ["name", "value", "key"])
def test_the_chat_asks_with_every_character_visible(
    place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for character in HIDDEN:
        odd = f"a{character}b"
        arguments = json.dumps({odd if place == "key" else "to": odd if place == "value" else "x"}, ensure_ascii=False)
        call = ToolCall("c1", FunctionCall(odd if place == "name" else "send", arguments))
        monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
        assert not asyncio.run(ask_in_chat(call)).is_allowed
        shown = capsys.readouterr().out
        assert_visible(shown.replace("\n", ""))
        # JSON escapes control characters by itself.
        assert visible(character) in shown or json.dumps(character)[1:-1] in shown


@pytest.mark.parametrize("field", [*TEXT_FIELDS, "arguments"])
def test_an_approval_is_listed_and_shown_with_every_character_visible(field: str) -> None:
    assert {one.name for one in fields(Approval)} >= {*TEXT_FIELDS}
    for character in HIDDEN:
        odd = f"a{character}b"
        value = odd.encode("utf-8", "surrogatepass") if field == "arguments" else odd
        approval = replace(APPROVAL, decided_at=1.0, **{field: value})
        page = approvals._page(approval, 0.0)
        assert_visible(page)
        assert_visible(approvals._line(approval, 0.0))
        assert page.count("\n") == approvals._page(
            replace(APPROVAL, decided_at=1.0, **{field: b"ab" if field == "arguments" else "ab"}), 0.0
        ).count("\n")
