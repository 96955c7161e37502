"""Credentials: what a sign-in to an MCP server left, and where it is kept. It knows neither OAuth's flow nor HTTP.

Credentials belong to one server at one address: a token is never read for another (`credential_id`). A store is shared
by processes: a file here, a ledger in `sealed_credentials`. An authorization server may replace the refresh token with
each use and take a second use of the old one for theft, so a process that refreshes holds the store's lock and reads
again first.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

from ferrule.core.json_text import digest, dumps, loads
from ferrule.errors import DefinitionError, FerruleError
from ferrule.sources.mcp.config import Server

KEY_VARIABLE = "FERRULE_CREDENTIALS_KEY"
KEY_FILE_VARIABLE = "FERRULE_CREDENTIALS_KEY_FILE"
FILE_VARIABLE = "FERRULE_MCP_CREDENTIALS"
_VERSION = 1
_SHORTEST_KEY = 32
_LOCK_PAUSE = 0.02


class CredentialsError(FerruleError):
    """Stored credentials cannot be read or written."""

    code = "credentials_unreadable"


@dataclass(frozen=True, slots=True)
class Credentials:
    """What is kept of a sign-in, as the JSON objects of OAuth.

    `expires_at` is when the access token expires, in seconds. `metadata` and `resource` are what the servers said of
    themselves: without them a refresh token would be sent to a guessed address after a restart. `wanted_scope` is what
    servers wanted for calls and the tokens are not good for.
    """

    tokens: Mapping[str, Any] | None = field(default=None, repr=False)
    expires_at: float | None = None
    client: Mapping[str, Any] | None = field(default=None, repr=False)
    metadata: Mapping[str, Any] | None = None
    resource: Mapping[str, Any] | None = None
    wanted_scope: str = ""


class CredentialStore(Protocol):
    """Where credentials are kept, by `credential_id`."""

    async def read(self, id: str) -> Credentials | None: ...

    async def write(self, id: str, credentials: Credentials) -> None: ...

    async def remove(self, id: str) -> bool:
        """Forget the credentials; False if there are none."""
        ...

    async def version(self, id: str) -> object:
        """Return a value that changes when the credentials do. It must be cheap; it may change without a reason."""
        ...

    def lock(self, id: str) -> Any:
        """Return an asynchronous context manager that only one task of all processes is in."""
        ...


def credential_id(server: Server) -> str:
    """The key of a server's credentials: another address under the same name has none of them."""
    return f"{server.name}:{digest([server.name, server.transport.identity])[:16]}"


class MemoryCredentials:
    """Credentials of this process."""

    def __init__(self) -> None:
        self._credentials: dict[str, Credentials] = {}
        self._changes = 0
        self._lock = asyncio.Lock()

    async def read(self, id: str) -> Credentials | None:
        return self._credentials.get(id)

    async def write(self, id: str, credentials: Credentials) -> None:
        self._credentials[id] = credentials
        self._changes += 1

    async def remove(self, id: str) -> bool:
        self._changes += 1
        return self._credentials.pop(id, None) is not None

    async def version(self, id: str) -> object:
        return self._changes

    @asynccontextmanager
    async def lock(self, id: str) -> AsyncGenerator[None]:
        async with self._lock:
            yield


class CredentialFile:
    """Credentials in a file that only its owner may read, encrypted if there is a key.

    `keys` are long random texts: the first encrypts, each decrypts, so a new one is put first and the old one taken
    away once every entry was written again. A file of another key, or of none, is an error and not an empty store.

    Example:
        CredentialFile(Path("credentials.json"), keys=(os.environ["FERRULE_CREDENTIALS_KEY"],))
    """

    def __init__(self, path: Path, keys: tuple[str, ...] = ()) -> None:
        self.path = path
        self._cipher = Cipher(keys) if keys else None

    async def read(self, id: str) -> Credentials | None:
        entry = self._entries().get(id)
        return None if entry is None else self._open(entry)

    async def write(self, id: str, credentials: Credentials) -> None:
        async with self._file_lock():
            self._save({**self._entries(), id: self._seal(credentials)})

    async def remove(self, id: str) -> bool:
        async with self._file_lock():
            entries = self._entries()
            found = entries.pop(id, None) is not None
            if found:
                self._save(entries)
        return found

    async def reencrypt(self) -> tuple[int, int]:
        """Encrypt every entry with the first key. Returns how many were written anew, and how many were not."""
        cipher = self._cipher
        if cipher is None:
            raise DefinitionError("there is no key to encrypt with", hint=f"Put one into {KEY_VARIABLE}.")
        async with self._file_lock():
            entries = self._entries()
            new = {id: _sealed_anew(cipher, entry) for id, entry in entries.items()}
            if None in new.values():
                raise CredentialsError(
                    f"{self.path} is encrypted with another key",
                    hint=f"Put that key into {KEY_VARIABLE} behind the new one; several are separated by commas.",
                )
            changed = sum(new[id] != one for id, one in entries.items())
            if changed:
                self._save(new)
        return changed, len(entries) - changed

    async def version(self, id: str) -> object:
        with suppress(OSError):
            stat = self.path.stat()
            return (stat.st_mtime_ns, stat.st_ino, stat.st_size)
        return None

    @asynccontextmanager
    async def lock(self, id: str) -> AsyncGenerator[None]:
        async with _held(self.path.with_name(f"{self.path.name}.{digest(id)[:12]}.lock")):
            yield

    def _file_lock(self) -> Any:
        return _held(self.path.with_name(f"{self.path.name}.lock"))

    def _entries(self) -> dict[str, Any]:
        try:
            document: Any = loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise CredentialsError(
                f"{self.path} cannot be read: {error!s:.200}", hint="Mend it or remove it, and sign in again."
            ) from error
        if not isinstance(document, dict) or cast("dict[str, Any]", document).get("version") != _VERSION:
            raise CredentialsError(
                f"{self.path} has another version",
                hint="Use the release that wrote it, or remove it and sign in again.",
            )
        return dict(cast("dict[str, Any]", document)["credentials"])

    def _save(self, entries: Mapping[str, Any]) -> None:
        text = dumps({"version": _VERSION, "credentials": dict(entries)})
        new = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Nobody else may read it, from the first byte on.
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path)

    def _seal(self, credentials: Credentials) -> Any:
        value = asdict(credentials)
        return value if self._cipher is None else self._cipher.seal(value)

    def _open(self, entry: object) -> Credentials:
        if isinstance(entry, dict):
            return Credentials(**cast("dict[str, Any]", entry))
        if self._cipher is None:
            raise CredentialsError(f"{self.path} is encrypted", hint=f"Put its key into {KEY_VARIABLE}.")
        return Credentials(**self._cipher.open(str(entry), str(self.path)))


def default_credentials(path: str = "", environment: Mapping[str, str] = os.environ) -> CredentialFile:
    """Return the file of this user: `path`, else that of the environment, else one in the folder for configuration."""
    file = path or environment.get(FILE_VARIABLE)
    if not file:
        # Only now: a container may have no home folder, and names a file.
        folder = Path(environment["XDG_CONFIG_HOME"]) if environment.get("XDG_CONFIG_HOME") else Path.home() / ".config"
        file = folder / "ferrule" / "mcp-credentials.json"
    return CredentialFile(Path(file), read_keys(environment))


def read_keys(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return the keys of the environment, or of the file that it names, the one that encrypts first; none if unset."""
    text, path = environment.get(KEY_VARIABLE, ""), environment.get(KEY_FILE_VARIABLE, "")
    if path and text.strip():
        raise DefinitionError(f"both {KEY_VARIABLE} and {KEY_FILE_VARIABLE} are set", hint="Unset one of them.")
    if path:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise DefinitionError(
                f"cannot read {KEY_FILE_VARIABLE} {path}", hint="Create one with: openssl rand -hex 32"
            ) from error
        if not text.strip():
            # Otherwise tokens would be written in the clear, or a ledger refused for another reason.
            raise DefinitionError(f"{KEY_FILE_VARIABLE} {path} is empty", hint="Create one with: openssl rand -hex 32")
    return tuple(key for part in text.replace("\n", ",").split(",") if (key := part.strip()))


class Cipher:
    """Encrypts JSON objects. The first key encrypts, each decrypts."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        from cryptography.fernet import Fernet, MultiFernet

        if any(len(key) < _SHORTEST_KEY for key in keys):
            raise DefinitionError(
                f"{KEY_VARIABLE} is shorter than {_SHORTEST_KEY} characters",
                hint="Create one with: openssl rand -hex 32",
            )
        # The keys are random, so a hash is enough to bring them to the length that the cipher takes.
        fernets = [Fernet(base64.urlsafe_b64encode(hashlib.sha256(key.encode()).digest())) for key in keys]
        self._first, self._fernet = fernets[0], MultiFernet(fernets)

    def seal(self, value: Mapping[str, Any]) -> str:
        return self._fernet.encrypt(dumps(dict(value)).encode()).decode()

    def reseal(self, text: str) -> str | None:
        """Return the text encrypted with the first key: the same if it is already; None if no key decrypts it."""
        from cryptography.fernet import InvalidToken

        with suppress(InvalidToken):
            self._first.decrypt(text.encode())
            return text
        with suppress(InvalidToken):
            return self._fernet.rotate(text.encode()).decode()
        return None

    def open(self, text: str, where: str) -> dict[str, Any]:
        """Return what was sealed. `where` names the store in the error for another key."""
        from cryptography.fernet import InvalidToken

        try:
            return cast("dict[str, Any]", loads(self._fernet.decrypt(text.encode()).decode()))
        except InvalidToken as error:
            raise CredentialsError(
                f"{where} is encrypted with another key",
                hint=f"Put that key into {KEY_VARIABLE}; several are separated by commas.",
            ) from error


def _sealed_anew(cipher: Cipher, entry: object) -> str | None:
    """The entry encrypted with the first key, also one that was not encrypted; None if no key decrypts it."""
    return cipher.seal(cast("dict[str, Any]", entry)) if isinstance(entry, dict) else cipher.reseal(str(entry))


@asynccontextmanager
async def _held(path: Path) -> AsyncGenerator[None]:
    """Hold a lock of all processes. It ends with the process that holds it."""
    # Not on Windows: only what signs in needs it.
    import fcntl

    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                await asyncio.sleep(_LOCK_PAUSE)
            else:
                break
        yield
    finally:
        os.close(handle)
