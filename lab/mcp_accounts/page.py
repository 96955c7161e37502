"""The section of results.md about accounts at MCP servers."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

from ferrule.bench.tables import Table, markdown
from lab.environment import describe_environment, measured_environment
from lab.mcp_accounts.processes import TOKEN_SECONDS
from lab.mcp_accounts.run import NAMES, OWN, TENANTS, Accounts
from lab.results_page import publish

DATABASES: Final = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
_COMMAND: Final = "```sh\nscripts/setup-oidc\nscripts/long mcp-accounts\n```"
_ABOUT: Final = (
    f"oidc-provider gives access tokens of {TOKEN_SECONDS} s for two MCP servers, which answer who the token says that "
    "its caller is, and replaces a refresh token at each use; a second use ends the grant. Two gateways on one ledger "
    f"call them for {len(TENANTS)} tenants with {len(NAMES)} principals each, who have the same names in every tenant: "
    "one server has an account for each principal, the other one for each tenant. A third server wants no token and "
    "must get none. Some calls are made by a model. The gateways are killed with SIGKILL, once both at a time, the MCP "
    "servers are killed and started again, the authorization server is restarted, and the grant of one principal is "
    "revoked. *Lost in a kill*: a gateway died between the answer to a refresh and its record, so that nobody has the "
    "new refresh token; the next use of the old one ends the grant, and the principal signs in again. *Longest pause*: "
    "the longest time between two good answers of one principal to calls 2 to 6 s apart, without the one whose grant "
    "was revoked."
)


def table_of(runs: list[Accounts]) -> Table:
    def row(label: str, value: Callable[[Accounts], Any]) -> list[str]:
        return [label, *(f"{one:,}" if isinstance(one := value(run), int) else str(one) for run in runs)]

    def counted(label: str, name: str = "") -> list[str]:
        return row(label, lambda run: run.counts[name or label])

    kinds = sorted({kind for run in runs for kind in run.errors if not kind.startswith("login")})
    rows = [
        row("minutes", lambda run: f"{run.counts['seconds'] / 60:.1f}"),
        row("SIGKILLs of gateways", lambda run: sum(len(one.kills) for one in run.gateways)),
        row("restarts of the MCP servers", lambda run: run.servers[OWN].restarts),
        row("restarts of the authorization server", lambda run: run.authorization.restarts),
        counted("calls"),
        counted("of them by a model", "calls by a model"),
        counted("calls answered"),
        counted("answered as another principal"),
        *(row(f"error: {kind}", lambda run, kind=kind: run.errors[kind]) for kind in kinds),
        row("errors that are not documented", lambda run: sum("not documented" in one for one in run.breaches)),
        counted("refreshes"),
        counted("refreshes at the same time"),
        counted("refresh tokens used twice"),
        counted("lost in a kill", "tokens lost in a kill"),
        row("accounts", lambda run: len(TENANTS) * (len(NAMES) + 1)),
        counted("consents"),
        counted("seconds from the revocation to `needs_login`", "seconds until needs_login"),
        row("longest pause, s", lambda run: f"{longest_pause(run):.0f}"),
        counted("tokens at another server"),
        counted("tokens, codes and secrets searched for"),
        *(
            counted(f"found in {where}")
            for where in ("logs", "the ledger, with its traces", "requests to the model", "answers")
        ),
        row("breaches", lambda run: len(run.breaches)),
    ]
    return Table("Nine principals, twelve accounts", _ABOUT, ("", *(DATABASES[run.database] for run in runs)), rows)


def longest_pause(run: Accounts) -> float:
    return max((gap for account, gap in run.gaps.items() if account != run.revoked_account), default=0.0)


def publish_accounts(table: Table) -> None:
    where = f"{describe_environment(measured_environment())} Load average {os.getloadavg()[2]:.1f}."
    publish("mcp-accounts", "Accounts at MCP servers through kills and restarts", [_COMMAND, where, markdown(table)])
