"""All rows of all oracles, in one worker process."""

from __future__ import annotations

from collections.abc import Iterator

from lab.agreement import by_library, by_template
from lab.agreement.rows import Row
from lab.workers import oracles

_ASKED = (
    by_template.rows,
    by_library.mistral_rows,
    by_library.harmony_rows,
    by_library.cohere_rows,
    by_library.qwen_rows,
)


def all_rows() -> Iterator[Row]:
    with oracles() as worker:
        for asked in _ASKED:
            yield from asked(worker)
