"""The title of a conversation in a list, read from the beginning of its state and no further than necessary."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import ChatMessage
from ferrule.core.message import messages_as_json
from ferrule.run.ledger.claim import encode_json
from ferrule.run.ledger.search import ConversationQuery
from ferrule.run.ledger.sql import SqlLedger
from ferrule.run.ledger.title import PREFIX_CHARS, title_of_messages, title_of_state
from run.ledger_databases import ANN, LEASE, Database, claim, propose_call

BERN = ChatMessage.user("How is\nBern?\u202e")
SPELLED = "How is Bern?\\u202e"
# The result of a tool may look like a state.
MAIL = ChatMessage.tool("k", {"messages": messages_as_json([ChatMessage.user("not me")])}, "mail")

texts = st.text(st.sampled_from('ab "\\{}[],:é\u200b\x00\ud800'), max_size=12)
messages = st.lists(
    st.builds(lambda make, text: make(text), st.sampled_from([ChatMessage.system, ChatMessage.user]), texts)
    | st.builds(ChatMessage.assistant, texts)
    | st.just(MAIL),
    max_size=5,
)


def state(*messages: ChatMessage, new_messages: tuple[ChatMessage, ...] = ()) -> dict[str, Any]:
    loop = {"place": "1", "added": messages_as_json(new_messages)} if new_messages else None
    return {"version": 1, "messages": messages_as_json(messages), "loop": loop, "within": "trip"}


@given(messages, messages)
def test_the_beginning_of_a_state_gives_the_title_of_the_whole_or_is_too_short(
    user_messages: list[ChatMessage], new_messages: list[ChatMessage]
) -> None:
    saved = state(*user_messages, new_messages=tuple(new_messages))
    text, whole = encode_json(saved), title_of_messages(saved["messages"])
    assert title_of_state(text) == whole
    titles = [title_of_state(text[:end]) for end in range(len(text))]
    shortest = next((end for end, title in enumerate(titles) if title is not None), len(titles))
    assert all(title == whole for title in titles[shortest:])


@pytest.mark.parametrize(
    "user_messages, title",
    [
        ((), ""),
        ((ChatMessage.system("Be short."), ChatMessage.assistant("Hello.")), ""),
        ((ChatMessage.system("Be short."), BERN, ChatMessage.user("And Thun?")), SPELLED),
        ((ChatMessage.user(" \n"), BERN), SPELLED),
        ((MAIL, BERN), SPELLED),
    ],
)
def test_a_title_is_the_first_words_of_a_user_with_nothing_hidden(
    user_messages: tuple[ChatMessage, ...], title: str
) -> None:
    assert title_of_state(encode_json(state(*user_messages))) == title
    assert title_of_state(encode_json(state(*user_messages, new_messages=(MAIL,)))) == title


@pytest.mark.parametrize(
    "spoiled",
    [
        *("", "null", "7", "{}", "{,", "[1", '{"messages":7}', '{"messages":[7]}', '{"loop":' + "[" * 100_000),
        '{"messages":[{"parts":[{"kind":"text","text":7}],"role":"user"}]}',
    ],
)
def test_a_damaged_state_has_no_title_and_is_no_error(spoiled: str) -> None:
    assert not title_of_state(spoiled)


def test_the_first_user_message_is_found_after_long_content(database: Database) -> None:
    states = {
        "short": state(BERN),
        "long": state(BERN, ChatMessage.assistant("é" * 3 * PREFIX_CHARS)),
        "prompt": state(ChatMessage.system("s" * 2 * PREFIX_CHARS), BERN),
        "turn": state(BERN, new_messages=(MAIL, ChatMessage.tool("k", "x" * 2 * PREFIX_CHARS, "look"))),
        "book": state(ChatMessage.system("s" * PREFIX_CHARS), BERN),
        "empty": state(),
    }

    async def scenario(ledger: SqlLedger) -> None:
        for at, (id, one) in enumerate(states.items()):
            record = await ledger.open(id, ANN, "one", LEASE, now=20 - at)
            await ledger.save(id, record.epoch, one, now=20 - at)
        await ledger.open("new", ANN, "one", LEASE, now=1)
        titles = {line.id: line.title for line in await ledger.conversations_of("acme", ConversationQuery())}
        expected = dict.fromkeys(("short", "long", "prompt", "turn", "book"), SPELLED)
        assert titles == {**expected, "empty": "", "new": ""}
        assert list(titles) == [*states, "new"]

    database.run(scenario)


def test_without_a_user_message_the_first_tool_is_the_title(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        # By when they were called: as a text, the id of the second comes first.
        await propose_call(ledger, what=claim("c", "3.1.0", tool="look"))
        await propose_call(ledger, what=claim("c", "11.1.0", tool="pay"))
        await propose_call(ledger, what=claim("d", "1.1.0", tool="pay"))
        await ledger.save("d", 1, state(BERN), now=1)
        titles = {line.id: line.title for line in await ledger.conversations_of("acme", ConversationQuery())}
        assert titles == {"c": "look", "d": SPELLED}

    database.run(scenario)
