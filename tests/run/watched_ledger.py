"""Watches what a ledger executes, statement by statement and step by step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from ferrule.run.ledger.ledger import Ledger
from ferrule.run.ledger.sql import SqlLedger
from ferrule.run.ledger.step import Step
from ferrule.run.ledger.transaction import QueryResult, Statement


@dataclass(frozen=True, slots=True)
class Executed:
    """What was executed: the transaction it belongs to, by name and number, and its own number in there."""

    transaction: str
    number: int
    at: int
    wanted: Statement | Step
    result: QueryResult
    is_atomic: bool


def watch(
    ledger: Ledger, executed: Callable[[Executed], object], returned: Callable[[str, int], None] | None = None
) -> Callable[[], None]:
    """Call `executed` after each statement and step, and `returned` after each transaction, with name and number.

    Returns a function that ends it.
    """
    numbers = count(1)
    ends = [_watch(one, numbers, executed, returned) for one in ledger.shards if isinstance(one, SqlLedger)]

    def end() -> None:
        for one in ends:
            one()

    return end


def _watch(
    ledger: SqlLedger,
    numbers: Iterator[int],
    executed: Callable[[Executed], object],
    returned: Callable[[str, int], None] | None,
) -> Callable[[], None]:
    real: Callable[..., Awaitable[Any]] = ledger._transact  # pyright: ignore[reportPrivateUsage]

    async def transact(transaction: Any, *, is_atomic: bool = False) -> Any:
        number, name = next(numbers), transaction.gi_code.co_name

        def watched() -> Any:
            at = 0
            try:
                wanted = next(transaction)
                while True:
                    result = yield wanted
                    at += 1
                    executed(Executed(name, number, at, wanted, result, is_atomic))
                    wanted = transaction.send(result)
            except StopIteration as done:
                return done.value

        result = await real(watched(), is_atomic=is_atomic)
        if returned is not None:
            returned(name, number)
        return result

    def end() -> None:
        ledger._transact = real  # type: ignore[method-assign]  # pyright: ignore[reportPrivateUsage]

    ledger._transact = transact  # type: ignore[method-assign]  # pyright: ignore[reportPrivateUsage]
    return end
