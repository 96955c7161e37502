"""A thousand lives of one conversation, in virtual time: messages lost, doubled and late, and everybody may die."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from ferrule.run.dispatcher import UNKNOWN_WORDS
from run.virtual_time import in_virtual_time
from run.virtual_world import STEPS, MemoryLedger, World

SCHEDULES = 1_000
BATCHES = 10
CHANGING = {"pay", "post"}
PLACES = [f"1.{number}.{place}" for number, step in enumerate(STEPS, 1) for place in range(len(step))]


@pytest.mark.parametrize(
    "batch", [pytest.param(batch, marks=pytest.mark.long) if batch > 2 else batch for batch in range(BATCHES)]
)
def test_no_effect_happens_twice_and_no_conversation_is_lost(batch: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(batch, SCHEDULES, BATCHES):
        seen += judged(seed)
    # What is meant to happen does.
    assert min(seen["owner"], seen["worker"], seen["unknown"], seen["happened"], seen["denied"]) > 0


def judged(seed: int) -> Counter[str]:
    world = World(seed)

    async def story() -> Counter[str]:
        talk = await world.lived()
        # Whatever is still on its way arrives.
        await asyncio.sleep(60)
        assert talk.last.text == "all done", seed
        results = [result for message in talk.messages for result in message.results]
        assert [result.name for result in results] == [name for step in STEPS for name in step], seed
        ledger = MemoryLedger(world.connection)
        assert await ledger.verify() is None, seed
        told: Counter[str] = Counter()
        for place, result in zip(PLACES, results, strict=True):
            if result.name in CHANGING:
                told[kind_of(str(result.content), world.effects[f"c/{place}"], f"seed {seed}, {place}")] += 1
        return told + world.deaths

    return in_virtual_time(story())


def kind_of(told: str, happened: int, where: str) -> str:
    """What the model was told of an effect is true of the world."""
    assert happened <= 1, where
    if told.startswith(UNKNOWN_WORDS):
        return "unknown"
    if " happened" in told:
        assert happened == 1, where
        return "happened"
    assert happened == 0, (where, told)
    return "denied" if told.startswith("denied") else "not delivered"
