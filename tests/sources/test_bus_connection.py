from __future__ import annotations

import asyncio
import socket
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats.aio.client import Client

from ferrule.cli.main import main
from ferrule.errors import BusUnavailableError, DefinitionError
from ferrule.sources.bus.connection import Connection, _one_line, publish_command, read_headers

texts = st.text(st.characters() | st.sampled_from(" \t\r\n"), max_size=30)
_LINE_BREAKS = str.maketrans("\r\n", "  ")


@given(texts)
def test_a_header_that_is_not_looked_through_again_is_written_as_if_it_were(text: str) -> None:
    (expected,) = _one_line({"X": text}).values()
    assert expected.strip().translate(_LINE_BREAKS) == text.strip().translate(_LINE_BREAKS)


async def library_command(subject: str, data: bytes, reply: str, headers: dict[str, str] | None) -> bytes:
    """The bytes that the library itself would send."""
    client: Any = Client()
    client._flush_queue = None
    await client._send_publish(subject, reply, data, len(data), headers)
    return b"".join(client._pending)


@given(
    st.binary(max_size=50),
    st.sampled_from(["", "_INBOX.x"]),
    st.none() | st.dictionaries(st.just("Ferrule-Token"), texts),
)
def test_a_message_is_published_with_the_librarys_own_bytes(
    data: bytes, reply: str, headers: dict[str, str] | None
) -> None:
    assert publish_command("t.a.b", data, reply, headers) == asyncio.run(library_command("t.a.b", data, reply, headers))


@given(
    st.lists(st.binary(max_size=12) | st.sampled_from([b"Name: value", b"A:b:c", b" A : b ", b"\xc3\xa4: \xff", b"A:"]))
)
def test_headers_are_read_as_the_library_reads_them(lines: list[bytes]) -> None:
    block = b"".join(line + b"\r\n" for line in lines)
    assert read_headers(b"NATS/1.0\r\n" + block + b"\r\n") == Client._parse_header_lines(block)


async def _refuses(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server that refuses every client. Its reason is lost in a reset unless the client waits for each answer."""
    writer.write(b'INFO {"auth_required": true, "max_payload": 1024}\r\n')
    requests = await reader.readline()
    if b'"verbose": true' in requests or b'"verbose":true' in requests:
        writer.write(b"-ERR 'Authorization Violation'\r\n")
        await writer.drain()
    else:
        missing = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, missing)
    writer.close()


def test_a_reason_that_was_lost_in_a_reset_is_asked_for_once_more() -> None:
    async def scenario() -> str:
        server = await asyncio.start_server(_refuses, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(BusUnavailableError) as refusal:
            await Connection(f"nats://ann:guessed@127.0.0.1:{port}").open()
        server.close()
        return str(refusal.value)

    output = asyncio.run(scenario())
    assert "Authorization Violation" in output
    assert "guessed" not in output


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nats", None)
    monkeypatch.delitem(sys.modules, "nats.errors", raising=False)
    with pytest.raises(DefinitionError, match="nats-py") as refusal:
        asyncio.run(Connection("nats://127.0.0.1:4222").open())
    assert refusal.value.hint == 'pip install "ferrule[nats]"'


def test_a_worker_without_its_package_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "nats", None)
    monkeypatch.delitem(sys.modules, "nats.errors", raising=False)
    file = tmp_path / "kitchen_tools.py"
    file.write_text('def boil(minutes: int) -> str:\n    """Boil an egg."""\n    return "done"\n', encoding="utf-8")
    assert main(["worker", f"{file}:boil"]) == 1
    assert 'pip install "ferrule[nats]"' in capsys.readouterr().err
