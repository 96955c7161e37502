"""What is said of the lowering, asked of xgrammar: every row by texts that fit and texts that do not."""

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


def admitted(worker: Worker, schema: dict[str, Any], *texts: str) -> list[bool]:
    answer = worker.ask({"tag": emit_structural_tag(Rule(Value(schema, schema))), "texts": texts})
    assert answer["error"] is None, answer["error"]
    return answer["accepted"]


@pytest.mark.parametrize("row", [pytest.param(row, id=row.keyword) for row in LIMITS["lowered"]])
def test_a_lowered_row_holds_in_xgrammar_too(xgrammar: Worker, row: Limit) -> None:
    written, unwritten = (*row.accepts, *row.slips), (*row.rejects, *row.narrows)
    answers = admitted(xgrammar, admit(dict(row.example_schema)), *written, *unwritten)
    assert answers == [*(True for _ in written), *(False for _ in unwritten)], (*written, *unwritten)


def test_the_same_name_twice_is_admitted(xgrammar: Worker) -> None:
    assert admitted(xgrammar, {"type": "object"}, '{"a": 1, "a": 2}') == [True]
