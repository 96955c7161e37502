"""Send mutated bodies to every API, and collect what fails, shrunk."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from ferrule.core.byte_cache import DEFAULT_BYTES
from lab.inputs.input import Input
from lab.inputs.mutations import make_input
from lab.inputs.shapes import APIS
from lab.inputs.shrink import readable, shrink
from lab.inputs.world import MODELS, World, open_world

_MAX_SHRUNK = 10


@dataclass(frozen=True, slots=True)
class Finding:
    """An input that failed, as small as it was made, and why."""

    api: str
    number: int
    input: Input
    problem: str

    def __str__(self) -> str:
        return f"{self.api} {self.number}: {readable(self.input)}\n  {self.problem[:1500]}"


@dataclass(slots=True)
class Findings:
    """The answers by API and status, and the failures."""

    statuses: dict[str, Counter[int]] = field(default_factory=lambda: {path: Counter[int]() for path in APIS})
    failures: list[Finding] = field(default_factory=list[Finding])

    def of(self, api: str) -> list[Finding]:
        return [finding for finding in self.failures if finding.api == api]


async def send_inputs(
    count: int,
    on_step: Callable[[int], None] | None = None,
    *,
    apis: tuple[str, ...] = APIS,
    seed: str = "",
    cache_bytes: int = DEFAULT_BYTES,
) -> Findings:
    """Send so many bodies to each API. The same seed gives the same bodies."""
    findings, sent = Findings(), 0
    async with open_world(cache_bytes) as world:
        for number in range(count):
            for api in apis:
                one = make_input(random.Random(f"{seed}{api} {number}"), api, MODELS)
                outcome = await world.send(one)
                findings.statuses[api][outcome.status] += 1
                if outcome.problem:
                    if len(findings.failures) < _MAX_SHRUNK:
                        one = await shrink(one, lambda smaller: _fails(world, smaller))
                    findings.failures.append(Finding(api, number, one, outcome.problem))
                sent += 1
                if on_step is not None:
                    on_step(sent)
    return findings


async def _fails(world: World, one: Input) -> bool:
    return bool((await world.send(one)).problem)
