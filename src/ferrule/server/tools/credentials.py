"""Gives MCP servers the tokens that are in the gateway's ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ferrule.errors import DefinitionError
from ferrule.run.ledger.ledger import Ledger
from ferrule.server.config.config import CREDENTIALS_IN_LEDGER, Config
from ferrule.server.tools.logins import Logins
from ferrule.server.tools.mcp_servers import mcp_servers
from ferrule.sources.mcp.account_connections import has_own_accounts
from ferrule.sources.mcp.credentials import read_keys
from ferrule.sources.mcp.sealed_credentials import SealedCredentials
from ferrule.sources.source import Source


def keep_credentials(
    config: Config, sources: Iterable[Source], ledger: Ledger, *, served: Callable[[], Iterable[Source]]
) -> Logins | None:
    """Let MCP servers use the ledger for their tokens, if the configuration says so. Call it before they connect.

    Returns what people sign in with to the servers of the sources that are `served`; None if they cannot here.
    """
    if config.sources.mcp_credentials != CREDENTIALS_IN_LEDGER:
        for source in mcp_servers(sources):
            own = next((one.name for one in source.config.servers if has_own_accounts(one)), None)
            if own is not None:
                # In a file, all callers would use the account of one.
                raise DefinitionError(
                    f"callers of the MCP server {own} have accounts of their own, which a ledger keeps",
                    hint='Set mcp_credentials = "ledger" in [sources].',
                )
        return None
    store = SealedCredentials(ledger, read_keys())
    for servers in mcp_servers(sources):
        servers.keep_credentials(store)
    return Logins(lambda: [one for servers in mcp_servers(served()) for one in servers.config.servers], store)
