"""Hypothesis profiles: "ci" repeats exactly, "long" searches. Choose one with HYPOTHESIS_PROFILE."""

import os

from hypothesis import settings

# Derandomised: a red build stays red until somebody mends it. New cases are the long profile's work.
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=60)
settings.register_profile("long", deadline=None, derandomize=False, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
