"""Three workers, one slow, one killed, one suspended: no call is lost silently, and none runs twice."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ferrule.core.context import CallContext
from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.sources.bus.bus import Bus
from ferrule.sources.bus.request_reply import HEARTBEAT_TIMEOUT
from ferrule.sources.bus.subject import Capability
from lab.bus_server import NatsServer
from live import bus_victim
from live.bus_parts import run, worker_process

pytestmark = pytest.mark.live
CALLS, WIDTH = 2_000, 64
KILLED_AT, STOPPED_AT = 600, 1_000
# Twelve checks in each heartbeat timeout, and a little time for the next attempt.
BOUND = HEARTBEAT_TIMEOUT + HEARTBEAT_TIMEOUT / 12 + 1.5
HAPPEN = Capability.read("victim.happen")
# A worker that hangs stays in its queue group until the server misses its pings.
CONFIGURATION = 'ping_interval: "1s"\nping_max: 2\n'


def worker(url: str, environment: Mapping[str, str]) -> AbstractContextManager[subprocess.Popen[str]]:
    return worker_process(f"{bus_victim.__file__}:TOOLS", "--nats", url, env=environment)


@dataclass(slots=True)
class Tally:
    outcomes: dict[int, Outcome] = field(default_factory=dict[int, Outcome])
    tries: Counter[int] = field(default_factory=Counter[int])
    longest: float = 0.0
    stalled: float = 0.0
    """Seconds that this process was stalled: the machine may be busy."""

    async def feel_stalls(self) -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.05)
            self.stalled += max(0.0, time.monotonic() - before - 0.1)


async def happen_once(bus: Bus, number: int, tally: Tally) -> None:
    """One call as the tool loop makes it: it is retried only if it certainly did not run."""
    context = CallContext(call_id=f"call-{number}", conversation="faults")
    while True:
        started = time.monotonic()
        outcome = await bus.call_capability(HAPPEN, {"number": number}, context)
        tally.longest = max(tally.longest, time.monotonic() - started)
        tally.tries[number] += 1
        if not isinstance(outcome, NotDelivered):
            tally.outcomes[number] = outcome
            return
        await asyncio.sleep(0.01)


async def run_all_calls(bus: Bus, tally: Tally, victims: list[subprocess.Popen[str]]) -> None:
    before = iter(range(CALLS))

    async def keep_calling() -> None:
        for number in before:
            if number == KILLED_AT:
                victims[0].kill()
            if number == STOPPED_AT:
                victims[1].send_signal(signal.SIGSTOP)
            await happen_once(bus, number, tally)

    await asyncio.gather(*(keep_calling() for _ in range(WIDTH)))


def test_no_call_is_lost_in_silence_and_no_effect_happens_twice(tmp_path: Path) -> None:
    place = tmp_path / "happened"
    tally = Tally()

    async def scenario(server: NatsServer) -> None:
        with ExitStack() as stack:
            quick = {bus_victim.PLACE: str(place), bus_victim.SECONDS: "0.004"}
            slow = {**quick, bus_victim.SECONDS: "0.1"}
            workers = [stack.enter_context(worker(server.url, how)) for how in (quick, quick, slow)]
            async with Bus(server.url) as bus:
                feeling = asyncio.create_task(tally.feel_stalls())
                await run_all_calls(bus, tally, workers)
                feeling.cancel()
                # The suspended worker continues with the calls that it had received: they run now, or not at all.
                workers[1].send_signal(signal.SIGCONT)
                await asyncio.sleep(1.0)

    run(scenario, CONFIGURATION)
    happened = Counter(map(int, place.read_text(encoding="ascii").split()))
    kinds = Counter(type(outcome).__name__ for outcome in tally.outcomes.values())
    print(f"\n{dict(kinds)}, {sum(tally.tries.values())} tries, longest {tally.longest:.2f} s")
    assert set(tally.outcomes) == set(range(CALLS))
    assert [number for number, times in happened.items() if times > 1] == []
    for number, outcome in tally.outcomes.items():
        if isinstance(outcome, Answered):
            assert outcome == Answered(number)
            assert happened[number] == 1
        else:
            assert isinstance(outcome, Unknown)
    assert tally.longest < BOUND + tally.stalled
    # The killed worker had at most `cap` calls; the suspended one gets calls until the server drops it.
    assert 0 < kinds["Unknown"] < CALLS / 4
