"""The ledger: a database of conversations, tool calls and approvals, so that side effects happen at most once.

Pass an open ledger to `ToolConversation.open`. The conversation then survives a crash, and a call with side effects
waits for an approval that anyone with access to the ledger can give.

Example:
    import ferrule.ledger
    from ferrule import Engine, ToolConversation

    async def ask(engine: Engine, tools: list) -> str:
        async with ferrule.ledger.open("sqlite:///ledger.db") as ledger:
            conversation = await ToolConversation.open(ledger, "c-1", engine, tools)
            return (await conversation.send_message("Order some coffee.")).text
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from os import PathLike, fspath
from types import TracebackType
from typing import TYPE_CHECKING

from ferrule.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ferrule.run.elicitation import ApprovalElicitationHandler
    from ferrule.run.ledger.ledger import Approval, ApprovalState, AuditRecord, Breach, CallRecord, CallState, Ledger
    from ferrule.run.sampling import ApprovalSamplingHandler
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "run.elicitation": ["ApprovalElicitationHandler"],
            "run.ledger.ledger": [
                *("Approval", "ApprovalState", "AuditRecord", "Breach", "CallRecord", "CallState", "Ledger")
            ],
            "run.sampling": ["ApprovalSamplingHandler"],
        },
    )

__all__ = [
    "Approval",
    "ApprovalElicitationHandler",
    "ApprovalSamplingHandler",
    "ApprovalState",
    "AuditRecord",
    "Breach",
    "CallRecord",
    "CallState",
    "Ledger",
    "open",
]


def open(
    address: str | PathLike[str] | Sequence[str | PathLike[str]], *, must_exist: bool = False, connections: int = 4
) -> _LedgerOpener:
    """Open a ledger: `sqlite:///file.db`, the path of a SQLite file, or `postgresql://...`.

    A list of addresses is one ledger over several databases: each tenant is in one of them. Only append to the list.
    `connections` is how many statements run in each Postgres database at the same time.

    Use it with `async with`, which closes the ledger at the end, or with `await`. `must_exist` refuses a SQLite file
    that does not exist instead of creating it.

    Example:
        async with ferrule.ledger.open("ledger.db") as ledger:
            print(await ledger.approvals())

        ledger = await ferrule.ledger.open("postgresql://localhost/ferrule")
        await ledger.close()
    """
    addresses = fspath(address) if isinstance(address, str | PathLike) else [fspath(one) for one in address]
    return _LedgerOpener(addresses, must_exist, connections)


class _LedgerOpener:
    """A ledger that is opened when it is awaited or entered."""

    def __init__(self, address: str | list[str], must_exist: bool, connections: int) -> None:
        self._address = address
        self._connections = connections
        self._must_exist = must_exist
        self._ledger: Ledger | None = None

    async def _open(self) -> Ledger:
        from ferrule.run.ledger.address import open_ledger

        return await open_ledger(self._address, must_exist=self._must_exist, connections=self._connections)

    def __await__(self) -> Generator[None, None, Ledger]:
        return self._open().__await__()

    async def __aenter__(self) -> Ledger:
        self._ledger = await self._open()
        return self._ledger

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ledger is not None:
            await self._ledger.close()
