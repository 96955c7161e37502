"""History keys: what a client may change in the history that it sends back, and what makes another conversation."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ferrule.core.call import FunctionCall, ToolCall
from ferrule.core.message import ChatMessage, Reasoning, Role, Text
from ferrule.run.history_key import HistoryKeys, history_keys
from ferrule.run.ledger.tables import MAX_EARLIER_KEYS

CALL = ToolCall("call_7", FunctionCall("look", '{"place": "Bern", "n": 1}'))
ASKED = (ChatMessage.system("Be brief."), ChatMessage.user("How is Bern?"))
REPLY = ChatMessage(Role.ASSISTANT, (Reasoning("Hm."), Text("I look. "), CALL))
RESULT = ChatMessage.tool("call_7", {"sun": True}, "look")


def belongs(*messages: ChatMessage, asked: tuple[ChatMessage, ...] = ASKED, reply: ChatMessage | None = REPLY) -> bool:
    """Whether a request with these messages belongs to the one that was asked and replied to."""
    return history_keys(asked, reply).own in history_keys(messages, ChatMessage.assistant("Done.")).earlier


def key_of(*messages: ChatMessage) -> str:
    return history_keys(messages).own


CHANGES: dict[str, Callable[[], tuple[ChatMessage, ...]]] = {
    "nothing": lambda: (*ASKED, REPLY, RESULT),
    "another system prompt": lambda: (ChatMessage.system("Be long."), ASKED[1], REPLY, RESULT),
    "no reasoning": lambda: (*ASKED, ChatMessage.assistant("I look. ", [CALL]), RESULT),
    "white space around the text": lambda: (*ASKED, ChatMessage.assistant("I look.", [CALL]), RESULT),
    "a reply in two messages": lambda: (
        *(*ASKED, ChatMessage.assistant("I look."), ChatMessage.assistant("", [CALL])),
        RESULT,
    ),
    "arguments formatted again": lambda: (
        *ASKED,
        ChatMessage.assistant("I look.", [ToolCall("call_7", FunctionCall("look", '{"n":1,"place":"Bern"}'))]),
        RESULT,
    ),
    "a question more": lambda: (*ASKED, REPLY, RESULT, ChatMessage.user("And then?")),
    "two rounds later": lambda: (*ASKED, REPLY, RESULT, ChatMessage.assistant("Sun."), ChatMessage.user("And then?")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_history_that_a_client_has_changed_harmlessly_still_belongs(change: str) -> None:
    assert belongs(*CHANGES[change]())


def test_another_reply_another_id_or_another_question_is_another_conversation() -> None:
    other_id = ToolCall("call_8", CALL.function)
    assert not belongs(*ASKED, ChatMessage.assistant("I looked.", [CALL]), RESULT)
    assert not belongs(*ASKED, ChatMessage.assistant("I look.", [other_id]), RESULT)
    assert not belongs(ChatMessage.user("How is Rome?"), REPLY, RESULT)
    assert not belongs(*ASKED)
    assert not belongs(*ASKED, ChatMessage.user("Hello?"))


def test_the_next_try_of_a_request_that_failed_belongs_to_it() -> None:
    assert belongs(*ASKED, reply=None)
    assert belongs(*ASKED, ChatMessage.user("Hello?"), reply=None)
    assert not belongs(ChatMessage.user("Hello?"), reply=None)


def test_texts_cannot_be_cut_so_that_two_histories_have_one_key() -> None:
    one = (ChatMessage.user("a"), ChatMessage.user("b"))
    assert key_of(*one) != key_of(ChatMessage.user("ab"))
    assert key_of(ChatMessage.user("a\0user\0b")) != key_of(*one)


def test_a_history_that_no_text_can_hold_has_a_key() -> None:
    assert key_of(ChatMessage.user("\ud800"))
    assert history_keys(()) == HistoryKeys("", ())
    assert history_keys((ChatMessage.system("x"),)) == HistoryKeys("", ())


def test_few_keys_are_looked_up_however_long_the_history_is() -> None:
    long = tuple(
        message
        for number in range(500)
        for message in (ChatMessage.user(f"q{number}"), ChatMessage.assistant(f"a{number}"))
    )
    assert len(history_keys(long).earlier) <= MAX_EARLIER_KEYS
    assert belongs(*long, ChatMessage.user("last"), asked=long[:-1], reply=long[-1])
