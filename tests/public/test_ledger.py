"""`ferrule.ledger.open`: by path or URL, with `async with` or `await`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import ferrule.ledger
from ferrule.errors import DefinitionError, LedgerError


@pytest.mark.parametrize("prefix", ["", "sqlite:///"])
def test_a_ledger_is_opened_by_path_or_by_url_and_closed_at_the_end(tmp_path: Path, prefix: str) -> None:
    async def main() -> None:
        async with ferrule.ledger.open(f"{prefix}{tmp_path}/ledger.db") as ledger:
            assert await ledger.approvals() == ()
        assert (tmp_path / "ledger.db").is_file()
        with pytest.raises(LedgerError):
            await ledger.approvals()

    asyncio.run(main())


def test_a_ledger_is_opened_by_a_path_object_and_with_await(tmp_path: Path) -> None:
    async def main() -> None:
        ledger = await ferrule.ledger.open(tmp_path / "ledger.db")
        assert isinstance(ledger, ferrule.ledger.Ledger)
        await ledger.close()

    asyncio.run(main())


def test_a_ledger_that_must_exist_is_not_created(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(LedgerError):
            await ferrule.ledger.open(tmp_path / "none.db", must_exist=True)
        assert not (tmp_path / "none.db").exists()

    asyncio.run(main())


def test_an_address_of_another_database_is_refused_with_what_to_write(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(DefinitionError, match="mysql://") as refusal:
            await ferrule.ledger.open("mysql://user:secret@host/db")
        assert "postgresql://" in refusal.value.hint
        assert "secret" not in refusal.value.message

    asyncio.run(main())
