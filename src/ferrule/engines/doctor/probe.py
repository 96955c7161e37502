"""Probe: a test of one feature, as data: its requests, the same requests without the feature, and the observer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ferrule.engines.doctor.client import ProbeRequest
from ferrule.engines.doctor.elicitation import CallElicitation
from ferrule.engines.doctor.observations import Observer

BuildRequests = Callable[[CallElicitation, int], list[ProbeRequest | None]]
"""Builds the requests of one run from the elicitation and the run's number; None if it cannot express one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """`control` builds the same requests without the feature, to show that the feature makes a difference.

    `needs_call` is set if the probe shows nothing unless the model calls a tool. `is_last` is set if the probe may
    crash the endpoint.
    """

    name: str
    requests: BuildRequests
    observe: Observer
    control: BuildRequests | None = None
    needs_call: bool = True
    is_last: bool = False
