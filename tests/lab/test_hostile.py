import asyncio
from contextlib import suppress

import pytest

from lab.hostile_clients import ATTACKS, Target
from lab.hostile_envoy import CONFIG, SECONDS, envoy_config
from lab.servers import ServerFailedError
from waiting import PATIENCE


def test_the_published_envoy_file_can_be_put_before_a_gateway() -> None:
    text = envoy_config(CONFIG.read_text(encoding="utf-8"), 1001, 1002, 1003)
    for port in (1001, 1002, 1003):
        assert text.count(f"port_value: {port}") == 1
    assert all(new in text for new in SECONDS.values())


def test_a_file_that_no_longer_says_what_is_to_be_changed_is_an_error() -> None:
    with pytest.raises(ServerFailedError, match="no longer contains"):
        envoy_config("listeners: []", 1, 2, 3)


@pytest.mark.parametrize("name", [name for name in ATTACKS if "stops" not in name])
def test_an_attacker_whose_connection_stays_open_reports_it(name: str) -> None:
    """By a server that takes everything and says nothing."""

    over = asyncio.Event()

    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while await reader.read(1_000_000):
                pass
            writer.close()
            await writer.wait_closed()
        over.set()

    async def scenario() -> str:
        async with await asyncio.start_server(deaf, "127.0.0.1", 0) as server:
            client, _ = ATTACKS[name]
            outcome = await client(Target(server.sockets[0].getsockname()[1], 0.4))
            await asyncio.wait_for(over.wait(), PATIENCE)
            return outcome

    assert asyncio.run(scenario()) == "open"
