from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.sources.bus.directory import KnownWorker
from ferrule.sources.bus.worker_slots import WorkerSlots
from waiting import PATIENCE, until


def workers(*caps: int) -> list[KnownWorker]:
    return [KnownWorker(f"worker{number}", "list", cap) for number, cap in enumerate(caps)]


@given(st.lists(st.integers(1, 8), min_size=1, max_size=12))
def test_every_slot_is_taken_once_and_equally_used(caps: list[int]) -> None:
    known, slots = workers(*caps), WorkerSlots()
    taken = Counter(worker.id for _ in range(sum(caps)) if (worker := slots.take(known)))
    assert taken == {worker.id: worker.cap for worker in known}
    assert slots.take(known) is None


def test_equal_workers_take_turns() -> None:
    known, slots = workers(*[4] * 5), WorkerSlots()
    picked: Counter[str] = Counter()
    for _ in range(100):
        worker = slots.take(known)
        assert worker is not None
        picked[worker.id] += 1
        slots.release(worker)
    assert set(picked.values()) == {20}


def test_a_worker_that_is_busy_with_the_calls_of_others_rests_and_then_gets_calls_again() -> None:
    (known,), slots = workers(4), WorkerSlots()
    for _ in range(20):
        # It rests for a millisecond at first, and never for long.
        while (taken := slots.take([known])) is None:
            assert known.busy_until > 0
        slots.release_busy(taken)
    assert known.running == 0
    while (taken := slots.take([known])) is None:
        continue
    slots.release(taken)
    assert known.busy_count == 0


def test_a_silent_worker_gets_a_call_only_if_no_other_is_left() -> None:
    known, slots = workers(1, 1), WorkerSlots()
    known[0].is_silent = True
    assert slots.take(known) is known[1]
    assert slots.take(known) is None
    known[1].is_silent = True
    assert slots.take(known) is known[0]


def test_calls_get_slots_in_the_order_in_which_they_began_to_wait() -> None:
    async def scenario() -> None:
        known, slots = workers(1, 1), WorkerSlots()
        taken = [slots.take(known), slots.take(known)]
        order: list[int] = []

        async def call(number: int) -> None:
            worker = await slots.wait(known, PATIENCE)
            assert worker is not None
            order.append(number)
            slots.release(worker)

        waiting = [asyncio.create_task(call(number)) for number in range(10)]
        await until(lambda: len(known[0].waiters) == 10)
        for worker in taken:
            assert worker is not None
            slots.release(worker)
        await asyncio.gather(*waiting)
        assert order == list(range(10))
        assert [(worker.running, len(worker.waiters)) for worker in known] == [(0, 0)] * 2

    asyncio.run(scenario())


@pytest.mark.parametrize("seed", range(5))
def test_cancelled_calls_lose_no_slot_and_no_worker_gets_more_than_it_takes(seed: int) -> None:
    luck = random.Random(seed)

    async def scenario() -> None:
        known, slots = workers(1, 2, 3), WorkerSlots()
        running: Counter[str] = Counter()

        async def call() -> None:
            while (worker := slots.take(known) or await slots.wait(known, 0.01)) is None:
                pass
            try:
                running[worker.id] += 1
                assert running[worker.id] <= worker.cap
                await asyncio.sleep(luck.choice((0, 0, 0.001)))
            finally:
                running[worker.id] -= 1
                slots.release(worker)

        tasks = [asyncio.create_task(call()) for _ in range(200)]
        for task in tasks:
            if luck.random() < 0.4:
                task.cancel()
            if luck.random() < 0.2:
                await asyncio.sleep(0)
        await asyncio.gather(*tasks, return_exceptions=True)
        assert not [task for task in tasks if not task.cancelled() and task.exception()]
        assert [(worker.running, len(worker.waiters)) for worker in known] == [(0, 0)] * 3

    asyncio.run(scenario())
