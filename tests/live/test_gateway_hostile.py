"""Slow and hostile clients against `ferrule serve`: each is ended, nothing of it stays, and others are answered.

The short form, without Envoy; `scripts/long hostile` is the long one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from lab.gateway_process import GatewayProcess
from lab.hostile import QUICK, gateway_under_attack, port_of, run_attack, warm
from lab.hostile_clients import ATTACKS, Target

pytestmark = pytest.mark.live

# What the clients may come away with; a head or a body that is cut off while it is sent may cost them the answer.
ENDS = {
    "half a head": {"408"},
    "a head that drips": {"408"},
    "half a body": {"408"},
    "a body that drips": {"408"},
    "nothing at all": {"closed"},
    "a head of 8 MB": {"431", "cut off"},
    "8,000 headers": {"431", "cut off"},
    "a body of 120 MB": {"413"},
    "a body of 120 MB, in chunks": {"413"},
    "a reader that stops": {"cut off"},
}
MEGABYTE = 1_000_000
# Long enough that a busy machine receives 100 MB before the time for a body is over.
SHORTER = {**dict.fromkeys(QUICK, "2"), "FERRULE_LIMITS_BODY_SECONDS": "6"}


@pytest.fixture(scope="module")
def gateway() -> Generator[GatewayProcess]:
    with gateway_under_attack(SHORTER) as served:
        asyncio.run(warm(Target(port_of(served), 10.0)))
        yield served


@pytest.mark.parametrize("name", ENDS)
def test_hostile_clients_are_ended_and_others_are_answered(name: str, gateway: GatewayProcess) -> None:
    patience = 8.0 if name == "a reader that stops" else 20.0
    seen = run_attack(name, gateway.process.pid, Target(port_of(gateway), patience), times=ATTACKS[name][1] // 2)
    assert set(seen.outcomes) <= ENDS[name]
    assert set(seen.others) == {"200"}
    assert seen.open_connections == 0


def test_memory_is_flat_when_it_happens_again_and_again(gateway: GatewayProcess) -> None:
    """The first of each has made what is made once; after that no round may leave more than the one before."""
    target = Target(port_of(gateway), 20.0)
    sizes = [
        [
            run_attack(name, gateway.process.pid, target, times=5).after
            for name in ("a head of 8 MB", "a body of 120 MB")
        ][-1]
        for _ in range(4)
    ]
    assert sizes[-1] - sizes[0] < 10 * MEGABYTE
