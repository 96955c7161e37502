"""How many examples a law takes of each format: few on every run, because sixty formats share the same nodes."""

from __future__ import annotations

import os

from hypothesis import settings

_IS_LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"


def per_format(examples: int) -> settings:
    """Settings for a test that runs once per format. In the long profile it takes as many as any other test."""
    return settings() if _IS_LONG else settings(max_examples=examples)
