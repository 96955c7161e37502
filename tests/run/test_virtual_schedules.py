"""A thousand runs of one conversation in virtual time: messages are lost, duplicated and late, processes die."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from ferrule.run.executor import UNKNOWN_MESSAGE
from run.virtual_time import in_virtual_time
from run.virtual_world import STEPS, MemoryLedger, World
from sampling import sampled

SCHEDULES = 1_000
BATCHES = 10
CHANGING = {"pay", "post"}
PLACES = [f"1.{number}.{place}" for number, step in enumerate(STEPS, 1) for place in range(len(step))]


# One batch on every run, another from commit to commit.
PICKED = [batch for _, batch in sampled("schedules", ["batch"], range(BATCHES), 1)]


@pytest.mark.parametrize(
    "batch", [pytest.param(batch, marks=[] if batch in PICKED else pytest.mark.long) for batch in range(BATCHES)]
)
def test_no_effect_happens_twice_and_no_conversation_is_lost(batch: int) -> None:
    totals: Counter[str] = Counter()
    for seed in range(batch, SCHEDULES, BATCHES):
        totals += run_world(seed)
    # Every kind of event occurred.
    assert min(totals["owner"], totals["worker"], totals["unknown"], totals["happened"], totals["denied"]) > 0


def run_world(seed: int) -> Counter[str]:
    world = World(seed)

    async def scenario() -> Counter[str]:
        talk = await world.run()
        # Wait for messages that are still on their way.
        await asyncio.sleep(60)
        assert talk.last.text == "all done", seed
        results = [result for message in talk.messages for result in message.results]
        assert [result.name for result in results] == [name for step in STEPS for name in step], seed
        ledger = MemoryLedger(world.connection)
        assert await ledger.verify() is None, seed
        outcomes: Counter[str] = Counter()
        for place, result in zip(PLACES, results, strict=True):
            if result.name in CHANGING:
                outcomes[kind_of(str(result.content), world.effects[f"c/{place}"], f"seed {seed}, {place}")] += 1
        return outcomes + world.deaths

    return in_virtual_time(scenario())


def kind_of(result: str, happened: int, where: str) -> str:
    """Check that what the model reads about an effect is true, and return the kind of the result."""
    assert happened <= 1, where
    if result.startswith(UNKNOWN_MESSAGE):
        return "unknown"
    if " happened" in result:
        assert happened == 1, where
        return "happened"
    assert happened == 0, (where, result)
    return "denied" if result.startswith("denied") else "not delivered"
