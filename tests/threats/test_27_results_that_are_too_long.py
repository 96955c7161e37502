"""Row 27: a result that is too long is truncated to 64 kB, and the model reads how much of it is missing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ferrule import tool
from ferrule.sources.functions import Functions
from server.keys import bearer
from threats.gateway_fixture import ANN, call, chat, threat_gateway

RESULTS: dict[str, Any] = {"text": "x" * 200_000, "wide": "\u20ac" * 200_000, "list": list(range(300_000))}


@pytest.mark.parametrize("name", RESULTS)
def test_the_model_reads_an_honest_beginning(name: str) -> None:
    @tool
    def read(what: str) -> Any:
        """Reads something."""
        return RESULTS[name]

    async def scenario() -> str:
        source = Functions([read])
        async with threat_gateway(call("read", what="x"), "Done.", source=source) as client:  # pyright: ignore[reportArgumentType]  # any source will do
            response = await chat(client, ANN)
            finished = [one["tool_finished"] for one in response.json()["ferrule"]["events"] if "tool_finished" in one]
            assert (await client.get("/healthz", bearer(ANN))).status == 200
            return finished[0]["content"]

    content = asyncio.run(scenario())
    beginning, _, note = content.rpartition("\n")
    assert len(beginning.encode()) <= 65_536
    assert note.startswith(f"[truncated: {len(beginning)} of ")
    assert "kept" not in note
