"""A storm kills whom it likes, except the only process that could take over what a stopped one owns."""

from __future__ import annotations

from multiprocessing import get_context

import pytest

from lab.ledger_storm.processes import Victim
from lab.ledger_storm.storm import APPROVER, GATEWAY, is_last_awake


def victim(kind: str, *, is_frozen: bool = False) -> Victim:
    def start() -> None:
        raise AssertionError("no process is started here")

    process = get_context("forkserver").Process(target=start)
    return Victim(kind, lambda: process, process, is_frozen=is_frozen)


@pytest.mark.parametrize(
    "others, is_last",
    [
        ([victim(GATEWAY)], False),
        ([victim(GATEWAY, is_frozen=True)], True),
        ([victim(GATEWAY, is_frozen=True), victim(GATEWAY)], False),
        ([victim(APPROVER, is_frozen=True)], False),
        ([], False),
    ],
)
def test_the_last_process_of_its_kind_that_is_awake_is_spared(others: list[Victim], is_last: bool) -> None:
    gateway = victim(GATEWAY)
    assert is_last_awake(gateway, [gateway, *others]) is is_last
