"""The options for where tokens of MCP servers are stored, and how a command opens that store."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from ferrule.cli.ledger_option import one_or_all
from ferrule.errors import DefinitionError
from ferrule.run.ledger.address import open_ledger
from ferrule.server.config.config import CREDENTIALS_IN_LEDGER
from ferrule.sources.mcp.account_connections import account_of
from ferrule.sources.mcp.config import Server
from ferrule.sources.mcp.credentials import (
    Credentials,
    CredentialStore,
    credential_id,
    default_credentials,
    read_keys,
)
from ferrule.sources.mcp.sealed_credentials import SealedCredentials

T = TypeVar("T")


def add_credentials_options(parser: ArgumentParser) -> None:
    add_store_options(parser)
    parser.add_argument(
        "--tenant", default="", metavar="NAME", help="whose account, for servers with an account for each"
    )
    parser.add_argument(
        "--principal", default="", metavar="NAME", help="whose account: the name of a key, or of a user"
    )


def add_store_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--credentials",
        default="",
        metavar="FILE",
        help="where tokens are kept (default: ferrule/mcp-credentials.json in the folder for configuration)",
    )
    parser.add_argument(
        "--ledger",
        action="append",
        default=[],
        metavar="PATH_OR_DSN",
        help="keep the tokens in this ledger instead, encrypted with the key in FERRULE_CREDENTIALS_KEY",
    )


def require_account(arguments: Namespace, server: Server) -> None:
    """Refuse to sign anybody in without knowing who it is."""
    missing = [name for name in account_of(server, "tenant", "principal") if name and not getattr(arguments, name)]
    if arguments.ledger and missing:
        flags = " and ".join(f"--{name}" for name in missing)
        raise DefinitionError(f"{server.name} has an account for each {missing[-1]}", hint=f"Give {flags}.")


class AccountCredentials:
    """The credentials that a command uses: of each server those of the account that it is about."""

    def __init__(self, shared: CredentialStore, own: Mapping[str, CredentialStore]) -> None:
        self._shared, self._own = shared, own

    def _of(self, id: str) -> CredentialStore:
        return self._own.get(id, self._shared)

    async def read(self, id: str) -> Credentials | None:
        return await self._of(id).read(id)

    async def write(self, id: str, credentials: Credentials) -> None:
        await self._of(id).write(id, credentials)

    async def remove(self, id: str) -> bool:
        return await self._of(id).remove(id)

    async def version(self, id: str) -> object:
        return await self._of(id).version(id)

    def lock(self, id: str) -> Any:
        return self._of(id).lock(id)


@asynccontextmanager
async def open_credentials(
    path: str, ledger: Sequence[str], tenant: str = "", principal: str = "", servers: Iterable[Server] = ()
) -> AsyncGenerator[CredentialStore]:
    """Open the store in a ledger that exists, or else the one in a file.

    Of `servers`, those with accounts of their own get that of this tenant or principal.
    """
    if not ledger:
        yield default_credentials(path)
        return
    if path not in ("", CREDENTIALS_IN_LEDGER):
        raise DefinitionError("tokens are kept in a file or in a ledger", hint="Leave out --credentials or --ledger.")
    keys = read_keys()
    async with await open_ledger(one_or_all(ledger), must_exist=True) as opened:
        shared = SealedCredentials(opened, keys)
        own = {credential_id(server): shared.of_account(*account_of(server, tenant, principal)) for server in servers}
        yield AccountCredentials(shared, own)


def on_credentials(
    arguments: Namespace, servers: Iterable[Server], work: Callable[[CredentialStore], Coroutine[Any, Any, T]]
) -> T:
    """Run `work` on the store that the options name, and return its result."""
    if (arguments.tenant or arguments.principal) and not arguments.ledger:
        raise DefinitionError("the accounts of tenants and principals are in a ledger", hint="Name it: --ledger.")

    async def run() -> T:
        whose = (arguments.tenant, arguments.principal)
        async with open_credentials(arguments.credentials, arguments.ledger, *whose, servers) as store:
            return await work(store)

    return asyncio.run(run())


def place_of_credentials(arguments: Namespace) -> str:
    """Return where the tokens are, for people. The address of a ledger may have a password in it."""
    return "the ledger" if arguments.ledger else str(default_credentials(arguments.credentials).path)
