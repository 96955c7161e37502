"""Probe: one demand on an endpoint, as data. What is asked, the same without the demand, and how answers are seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ferrule.engines.doctor.client import Question
from ferrule.engines.doctor.elicitation import Lever
from ferrule.engines.doctor.observations import View

Asked = Callable[[Lever, int], list[Question | None]]
"""The questions of one run, from the lever and the run's number; None is one that the lever cannot say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """`needs_call` is set where nothing can be seen unless the model can be brought to call a tool.

    `is_last` is set where the endpoint may not survive it.
    """

    name: str
    asked: Asked
    seen: View
    without: Asked | None = None
    needs_call: bool = True
    is_last: bool = False
