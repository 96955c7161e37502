from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lab.saved_parts import SavedParts


def test_saved_parts_are_not_measured_again(tmp_path: Path) -> None:
    calls: list[str] = []

    async def run(*names: str) -> list[object]:
        saved = SavedParts("run", tmp_path)

        async def one(name: str) -> object:
            async def measure() -> dict[str, str]:
                calls.append(name)
                return {"of": name}

            return await saved.part(name, measure)

        return [await one(name) for name in names]

    asyncio.run(run("a", "b"))
    assert asyncio.run(run("a", "b", "c")) == [{"of": "a"}, {"of": "b"}, {"of": "c"}]
    assert calls == ["a", "b", "c"]


def test_a_part_that_failed_or_was_half_written_is_measured_again(tmp_path: Path) -> None:
    async def fails() -> int:
        raise RuntimeError("stopped")

    async def works() -> int:
        return 7

    with pytest.raises(RuntimeError):
        asyncio.run(SavedParts("run", tmp_path).part("a", fails))
    (tmp_path / "run.parts.jsonl").write_text('{"name": "a", "va', encoding="utf-8")
    assert asyncio.run(SavedParts("run", tmp_path).part("a", works)) == 7
    # And what was written behind the damage is found again.
    assert asyncio.run(SavedParts("run", tmp_path).part("a", fails)) == 7


def test_a_run_can_begin_anew(tmp_path: Path) -> None:
    async def value(number: int) -> int:
        return number

    asyncio.run(SavedParts("run", tmp_path).part("a", lambda: value(1)))
    again = SavedParts("run", tmp_path)
    again.clear()
    assert asyncio.run(again.part("a", lambda: value(2))) == 2
