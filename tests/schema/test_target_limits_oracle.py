"""The table of what lowering enforces, tested with xgrammar: every row with texts that fit and texts that do not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ferrule.rules.rule import Rule, Value
from ferrule.rules.structural_tag import emit_structural_tag
from ferrule.schema.admission import admit
from ferrule.schema.target_limits import LIMITS, Limit
from lab.paths import CACHE
from lab.workers import Worker

pytestmark = pytest.mark.oracle


@pytest.fixture(scope="module")
def xgrammar() -> Iterator[Worker]:
    interpreter = CACHE / "venvs" / "xgrammar" / "bin" / "python"
    with Worker(interpreter, "lab.peers.xgrammar_worker", hint="run scripts/setup-oracles") as worker:
        yield worker


def admit_texts(worker: Worker, schema: dict[str, Any], *texts: str) -> list[bool]:
    answer = worker.ask({"tag": emit_structural_tag(Rule(Value(schema, schema))), "texts": texts})
    assert answer["error"] is None, answer["error"]
    return answer["accepted"]


@pytest.mark.parametrize("row", [pytest.param(row, id=row.keyword) for row in LIMITS["lowered"]])
def test_a_lowered_row_holds_in_xgrammar_too(xgrammar: Worker, row: Limit) -> None:
    admitted_texts, refused_texts = (*row.accepts, *row.false_accepts), (*row.rejects, *row.false_rejects)
    answers = admit_texts(xgrammar, admit(dict(row.example_schema)), *admitted_texts, *refused_texts)
    assert answers == [*(True for _ in admitted_texts), *(False for _ in refused_texts)], (
        *admitted_texts,
        *refused_texts,
    )


def test_the_same_name_twice_is_admitted(xgrammar: Worker) -> None:
    assert admit_texts(xgrammar, {"type": "object"}, '{"a": 1, "a": 2}') == [True]
