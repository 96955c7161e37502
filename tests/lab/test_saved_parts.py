from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lab.saved_parts import Sittings


def test_what_was_measured_in_an_earlier_sitting_is_not_measured_again(tmp_path: Path) -> None:
    measured: list[str] = []

    async def sitting(*names: str) -> list[object]:
        kept = Sittings("run", tmp_path)

        async def one(name: str) -> object:
            async def measure() -> dict[str, str]:
                measured.append(name)
                return {"of": name}

            return await kept.part(name, measure)

        return [await one(name) for name in names]

    asyncio.run(sitting("a", "b"))
    assert asyncio.run(sitting("a", "b", "c")) == [{"of": "a"}, {"of": "b"}, {"of": "c"}]
    assert measured == ["a", "b", "c"]


def test_a_part_that_failed_or_was_half_written_is_measured_again(tmp_path: Path) -> None:
    async def fails() -> int:
        raise RuntimeError("stopped")

    async def works() -> int:
        return 7

    with pytest.raises(RuntimeError):
        asyncio.run(Sittings("run", tmp_path).part("a", fails))
    (tmp_path / "run.parts.jsonl").write_text('{"name": "a", "va', encoding="utf-8")
    assert asyncio.run(Sittings("run", tmp_path).part("a", works)) == 7
    # And what was written behind the damage is found again.
    assert asyncio.run(Sittings("run", tmp_path).part("a", fails)) == 7


def test_a_run_can_begin_anew(tmp_path: Path) -> None:
    async def value(number: int) -> int:
        return number

    asyncio.run(Sittings("run", tmp_path).part("a", lambda: value(1)))
    again = Sittings("run", tmp_path)
    again.forget()
    assert asyncio.run(again.part("a", lambda: value(2))) == 2
