"""`ferrule mcp reencrypt`: encrypts all stored tokens of MCP servers with the newest key, so that an old one can go."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace

from ferrule.cli import streams, terminal
from ferrule.cli.ledger_option import on_ledger
from ferrule.errors import DefinitionError
from ferrule.run.ledger.ledger import Ledger
from ferrule.run.ledger.reseal_report import ResealReport
from ferrule.server.config.config import CREDENTIALS_IN_LEDGER
from ferrule.sources.mcp.credentials import Cipher, default_credentials, read_keys
from ferrule.sources.mcp.sealed_credentials import require_key


def reencrypt(arguments: Namespace) -> None:
    """Encrypt the tokens of all accounts with the first key."""
    report = _in_ledger(arguments) if arguments.ledger else _in_file(arguments.credentials)
    # Ids are the names of servers, and of what the gateway keeps for a login.
    for tenant, principal, id in report.unreadable:
        whose = f" of {tenant}/{principal}" if tenant else ""
        line = f"error: the entry {id.rpartition(':')[0] or id}{whose} is encrypted with a key that was not given"
        print(terminal.printable(line), file=sys.stderr)
    streams.write(f"re-encrypted: {report.changed}, with the newest key already: {report.unchanged}\n")
    if report.unreadable:
        print("hint: put that key into FERRULE_CREDENTIALS_KEY behind the new one.", file=sys.stderr)
        raise SystemExit(1)


def _in_ledger(arguments: Namespace) -> ResealReport:
    if arguments.credentials not in ("", CREDENTIALS_IN_LEDGER):
        raise DefinitionError("tokens are kept in a file or in a ledger", hint="Leave out --credentials or --ledger.")
    keys = read_keys()
    require_key(keys)
    cipher = Cipher(keys)

    async def run(ledger: Ledger) -> ResealReport:
        return await ledger.reseal_credentials(cipher.reseal)

    return on_ledger(arguments.ledger, run)


def _in_file(path: str) -> ResealReport:
    return ResealReport(*asyncio.run(default_credentials(path).reencrypt()))
