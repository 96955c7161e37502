from __future__ import annotations

from typing import Any

import pytest

from ferrule.core.context import CallContext, Principal
from ferrule.core.outcome import Answered
from ferrule.sources.bus.deduplication import Deduplicator, key_of
from ferrule.sources.bus.frame import UnknownOutcome

ARGUMENTS: dict[str, Any] = {"a": 1, "b": 2}
CONTEXT = CallContext(call_id="c1", conversation="v1")


def test_a_call_begins_once_and_its_answer_is_remembered() -> None:
    once = Deduplicator()
    assert once.begin("k") is None
    assert isinstance(once.begin("k"), UnknownOutcome)
    once.finish("k", Answered("done"))
    assert once.begin("k") == Answered("done")


def test_a_call_that_did_not_run_may_begin_again() -> None:
    once = Deduplicator()
    once.begin("k")
    once.forget("k")
    assert once.begin("k") is None


def test_only_so_many_are_remembered_and_the_oldest_go_first() -> None:
    once = Deduplicator(max_calls=2)
    for key in ("a", "b", "c"):
        assert once.begin(key) is None
    once.finish("a", Answered("too late to be kept"))
    assert isinstance(once.begin("c"), UnknownOutcome)
    assert once.begin("a") is None


def test_the_same_call_has_the_same_key_however_its_arguments_are_ordered() -> None:
    assert key_of("s", ARGUMENTS, CONTEXT) == key_of(
        "s", {"b": 2, "a": 1}, CallContext(call_id="c1", conversation="v1")
    )


@pytest.mark.parametrize(
    "subject, arguments, context",
    [
        ("other", ARGUMENTS, CONTEXT),
        ("s", {"a": 1}, CONTEXT),
        ("s", ARGUMENTS, CallContext(call_id="c2", conversation="v1")),
        ("s", ARGUMENTS, CallContext(call_id="c1", conversation="v2")),
        ("s", ARGUMENTS, CallContext(call_id="c1", conversation="v1", principal=Principal("ann"))),
        ("s", ARGUMENTS, CallContext(call_id="c1", conversation="v1", principal=Principal(tenant="acme"))),
    ],
)
def test_two_calls_differ_by_principal_conversation_id_and_arguments(
    subject: str, arguments: dict[str, Any], context: CallContext
) -> None:
    assert key_of(subject, arguments, context) != key_of("s", ARGUMENTS, CONTEXT)
