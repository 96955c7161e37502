"""Stored credentials: written whole, read by their owner alone, locked against other processes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ferrule.errors import DefinitionError
from ferrule.sources.mcp.config import HttpTransport, Server
from ferrule.sources.mcp.credentials import (
    CredentialFile,
    Credentials,
    CredentialsError,
    credential_id,
    default_credentials,
    read_keys,
)

KEPT = Credentials({"access_token": "a-secret"}, 7.0, {"client_id": "c"}, {"issuer": "i"}, {"resource": "r"})


def test_credentials_come_back_as_they_were_and_are_not_shown(tmp_path: Path) -> None:
    async def run() -> None:
        file = CredentialFile(tmp_path / "below" / "c.json")
        assert await file.read("one") is None
        before = await file.version("one")
        await file.write("one", KEPT)
        await file.write("two", Credentials())
        assert await file.version("one") != before
        assert await file.read("one") == KEPT
        assert await file.remove("one")
        assert not await file.remove("one")
        assert await file.read("two") == Credentials()
        assert file.path.stat().st_mode & 0o777 == 0o600

    asyncio.run(run())
    assert "a-secret" not in repr(KEPT)


def test_many_writers_lose_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        files = [CredentialFile(tmp_path / "c.json") for _ in range(8)]
        await asyncio.gather(*(file.write(f"id{at}", KEPT) for at, file in enumerate(files)))
        assert [await files[0].read(f"id{at}") for at in range(8)] == [KEPT] * 8

    asyncio.run(run())


def test_one_at_a_time_holds_the_lock_of_a_server(tmp_path: Path) -> None:
    async def run() -> None:
        one, other = (CredentialFile(tmp_path / "c.json") for _ in range(2))
        inside: list[str] = []

        async def hold(file: CredentialFile, name: str) -> None:
            async with file.lock("server"):
                inside.append(name)
                await asyncio.sleep(0.05)
                inside.append(name)

        await asyncio.gather(hold(one, "a"), hold(other, "b"))
        assert inside in (["a", "a", "b", "b"], ["b", "b", "a", "a"])

    asyncio.run(run())


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 2}'])
def test_a_file_that_cannot_be_read_is_an_error_and_not_an_empty_store(tmp_path: Path, text: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CredentialsError):
        asyncio.run(CredentialFile(path).read("one"))
    with pytest.raises(CredentialsError):
        asyncio.run(CredentialFile(path).write("one", KEPT))
    assert path.read_text(encoding="utf-8") == text


def test_the_file_is_the_users_unless_another_is_named(tmp_path: Path) -> None:
    assert default_credentials("here.json").path == Path("here.json")
    assert default_credentials("", {"FERRULE_MCP_CREDENTIALS": "/x/y.json"}).path == Path("/x/y.json")
    folder = default_credentials("", {"XDG_CONFIG_HOME": str(tmp_path)}).path
    assert folder == tmp_path / "ferrule" / "mcp-credentials.json"


def test_a_key_that_can_be_guessed_is_refused() -> None:
    with pytest.raises(DefinitionError, match="shorter than 32"):
        default_credentials("c.json", {"FERRULE_CREDENTIALS_KEY": "password"})


def test_keys_come_from_the_environment_or_from_a_file_that_it_names(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"{'n' * 64}\n{'o' * 64}\n", encoding="utf-8")
    named = {"FERRULE_CREDENTIALS_KEY_FILE": str(file)}
    assert read_keys({}) == ()
    assert read_keys(named) == read_keys({"FERRULE_CREDENTIALS_KEY": f"{'n' * 64}, {'o' * 64}"})
    with pytest.raises(DefinitionError, match="both"):
        read_keys({**named, "FERRULE_CREDENTIALS_KEY": "k" * 64})
    for wrong in (tmp_path / "missing", tmp_path / "empty"):
        (tmp_path / "empty").touch()
        with pytest.raises(DefinitionError, match=wrong.name):
            read_keys({"FERRULE_CREDENTIALS_KEY_FILE": str(wrong)})


def test_credentials_belong_to_a_name_and_an_address() -> None:
    ids = {credential_id(Server(name, HttpTransport(url))) for name in "ab" for url in ("https://x/1", "https://x/2")}
    assert len(ids) == 4


def test_a_file_is_encrypted_anew_with_the_first_key_also_where_it_was_not_encrypted(tmp_path: Path) -> None:
    async def run() -> None:
        path = tmp_path / "c.json"
        await CredentialFile(path).write("plain", KEPT)
        await CredentialFile(path, ("a" * 32,)).write("old", KEPT)
        await CredentialFile(path, ("b" * 32,)).write("new", KEPT)
        assert await CredentialFile(path, ("b" * 32, "a" * 32)).reencrypt() == (2, 1)
        assert await CredentialFile(path, ("b" * 32, "a" * 32)).reencrypt() == (0, 3)
        assert "a-secret" not in path.read_text(encoding="utf-8")
        newest = CredentialFile(path, ("b" * 32,))
        assert [await newest.read(id) for id in ("plain", "old", "new")] == [KEPT] * 3
        with pytest.raises(CredentialsError, match="another key"):
            await CredentialFile(path, ("c" * 32,)).reencrypt()
        with pytest.raises(DefinitionError, match="no key"):
            await CredentialFile(path).reencrypt()

    asyncio.run(run())
