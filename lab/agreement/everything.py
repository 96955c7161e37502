"""All rows of all oracles, in one worker process."""

from __future__ import annotations

from collections.abc import Iterator

from lab.agreement import by_library, by_template
from lab.agreement.rows import AgreementRow
from lab.workers import oracles

_SOURCES = (
    by_template.rows,
    by_library.mistral_rows,
    by_library.harmony_rows,
    by_library.cohere_rows,
    by_library.qwen_rows,
)


def all_rows() -> Iterator[AgreementRow]:
    with oracles() as worker:
        for source in _SOURCES:
            yield from source(worker)
