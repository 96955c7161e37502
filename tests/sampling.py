"""Samples of products: every format on every run, each with some of the choices.

Sixty formats times three or four choices is most of the time that the tests take, and nearly every fault shows with any
choice. So a run takes all formats and, for each, one or two choices that a hash picks from the seed. The seed is the
commit: a run of the same commit takes the same sample on every machine, and the pairs change from commit to commit.

    FERRULE_SAMPLE=3f2c1ab0 .venv/bin/pytest ...    the sample of that commit, or of any other word
    FERRULE_SAMPLE=all .venv/bin/pytest ...         every pair, as scripts/long products does
"""

from __future__ import annotations

import datetime
import hashlib
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

VARIABLE = "FERRULE_SAMPLE"
WHOLE = "all"
_Row = TypeVar("_Row")
_Column = TypeVar("_Column")


def seed() -> str:
    """The seed of this run. It is put into the environment, so that every process of a run has the same."""
    if not os.environ.get(VARIABLE):
        os.environ[VARIABLE] = _commit() or datetime.date.today().isoformat()
    return os.environ[VARIABLE]


def sampled(
    label: str, rows: Iterable[_Row], columns: Iterable[_Column], each: int = 1, *, seed_of_run: str = ""
) -> list[tuple[_Row, _Column]]:
    """Return pairs for `parametrize`: each row with `each` of the columns, in their order.

    `label` names the test, so that two tests pick different columns for the same row.
    """
    word, all_columns = seed_of_run or seed(), list(columns)
    if word == WHOLE:
        return [(row, column) for row in rows for column in all_columns]
    pairs: list[tuple[_Row, _Column]] = []
    for row in rows:
        ranks = {at: hashlib.sha256(f"{word}/{label}/{row}/{at}".encode()).digest() for at in range(len(all_columns))}
        picked = set(sorted(ranks, key=ranks.__getitem__)[:each])
        pairs += [(row, column) for at, column in enumerate(all_columns) if at in picked]
    return pairs


def _commit() -> str:
    try:
        result = subprocess.run(
            ["git", "rev-parse", "--short=8", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        # An unpacked sdist is no repository.
        return ""
    return result.stdout.strip()
