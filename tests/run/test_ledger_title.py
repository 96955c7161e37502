"""What a conversation is known by in a list, read from the beginning of its state and no further than need be."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import ChatMessage
from ferrule.core.message_json import messages_as_json
from ferrule.run.ledger.claim import kept_json
from ferrule.run.ledger.search import Search
from ferrule.run.ledger.sql import SqlLedger
from ferrule.run.ledger.title import BEGINNING, LONGEST, title_by, title_in
from run.ledger_databases import ANN, LEASE, Home, claim, proposed

BERN = ChatMessage.user("How is\nBern?\u202e")
SPELLED = "How is Bern?\\u202e"
# What a tool gave may look like a state; it is none.
MAIL = ChatMessage.tool("k", {"messages": messages_as_json([ChatMessage.user("not me")])}, "mail")

texts = st.text(st.sampled_from('ab "\\{}[],:é\u200b\x00\ud800'), max_size=12)
messages = st.lists(
    st.builds(lambda make, text: make(text), st.sampled_from([ChatMessage.system, ChatMessage.user]), texts)
    | st.builds(ChatMessage.assistant, texts)
    | st.just(MAIL),
    max_size=5,
)


def state(*said: ChatMessage, added: tuple[ChatMessage, ...] = ()) -> dict[str, Any]:
    loop = {"place": "1", "added": messages_as_json(added)} if added else None
    return {"version": 1, "messages": messages_as_json(said), "loop": loop, "within": "trip"}


@given(messages, messages)
def test_a_beginning_tells_the_title_of_the_whole_or_that_it_is_too_short(
    said: list[ChatMessage], added: list[ChatMessage]
) -> None:
    held = state(*said, added=tuple(added))
    text, whole = kept_json(held), title_by(held["messages"])
    assert title_in(text) == whole
    told = [title_in(text[:end]) for end in range(len(text))]
    known = next((end for end, title in enumerate(told) if title is not None), len(told))
    assert all(title == whole for title in told[known:])


@pytest.mark.parametrize(
    "said, title",
    [
        ((), ""),
        ((ChatMessage.system("Be short."), ChatMessage.assistant("Hello.")), ""),
        ((ChatMessage.system("Be short."), BERN, ChatMessage.user("And Thun?")), SPELLED),
        ((ChatMessage.user(" \n"), BERN), SPELLED),
        ((MAIL, BERN), SPELLED),
    ],
)
def test_a_title_is_the_first_words_of_a_user_with_nothing_hidden(said: tuple[ChatMessage, ...], title: str) -> None:
    assert title_in(kept_json(state(*said))) == title
    assert title_in(kept_json(state(*said, added=(MAIL,)))) == title


@pytest.mark.parametrize(
    "spoiled",
    [
        *("", "null", "7", "{}", "{,", "[1", '{"messages":7}', '{"messages":[7]}', '{"loop":' + "[" * 100_000),
        '{"messages":[{"parts":[{"kind":"text","text":7}],"role":"user"}]}',
    ],
)
def test_a_state_that_somebody_spoiled_has_no_title_and_is_no_error(spoiled: str) -> None:
    assert not title_in(spoiled)


def test_what_was_asked_first_is_found_behind_much_else_but_not_behind_anything(home: Home) -> None:
    held = {
        "short": state(BERN),
        "long": state(BERN, ChatMessage.assistant("é" * 3 * LONGEST)),
        "prompt": state(ChatMessage.system("s" * 2 * BEGINNING), BERN),
        "turn": state(BERN, added=(MAIL, ChatMessage.tool("k", "x" * 2 * BEGINNING, "look"))),
        "book": state(ChatMessage.system("s" * LONGEST), BERN),
        "empty": state(),
    }

    async def story(ledger: SqlLedger) -> None:
        for at, (id, one) in enumerate(held.items()):
            record = await ledger.open(id, ANN, "one", LEASE, now=-at)
            await ledger.save(id, record.epoch, one, now=-at)
        await ledger.open("new", ANN, "one", LEASE, now=-9)
        told = {line.id: line.title for line in await ledger.conversations_of("acme", Search())}
        found = dict.fromkeys(("short", "long", "prompt", "turn"), SPELLED)
        assert told == {**found, "book": "", "empty": "", "new": ""}
        assert list(told) == [*held, "new"]

    home.run(story)


def test_where_nothing_was_asked_the_tool_that_was_called_first_is_the_title(home: Home) -> None:
    async def story(ledger: SqlLedger) -> None:
        # By when they were called: as a text, the id of the second comes first.
        await proposed(ledger, what=claim("c", "3.1.0", tool="look"))
        await proposed(ledger, what=claim("c", "11.1.0", tool="pay"))
        await proposed(ledger, what=claim("d", "1.1.0", tool="pay"))
        await ledger.save("d", 1, state(BERN), now=1)
        told = {line.id: line.title for line in await ledger.conversations_of("acme", Search())}
        assert told == {"c": "look", "d": SPELLED}

    home.run(story)
