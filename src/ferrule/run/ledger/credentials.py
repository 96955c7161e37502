"""The transactions on stored credentials: sealed texts of principals, and leases on them. Independent of the database.

A ledger holds the tokens of sign-ins for all processes (`sources.mcp.sealed_credentials`), and cannot read them: the
text is encrypted before it comes here. A lease lets one process at a time renew a token. It is no transaction, because
a renewal asks another server: it ends by itself if its process dies.
"""

from __future__ import annotations

from collections.abc import Callable

from ferrule.run.ledger.reseal_report import CredentialKey, ResealReport
from ferrule.run.ledger.transaction import Transaction, execute

_PAGE = 100


def find_credential(tenant: str, principal: str, id: str) -> Transaction[str | None]:
    rows = (yield from execute("credential", tenant, principal, id)).rows
    return rows[0][0] if rows else None


def find_revision(tenant: str, principal: str, id: str) -> Transaction[str]:
    rows = (yield from execute("credential_revision", tenant, principal, id)).rows
    return rows[0][0] if rows else ""


def store_credential(tenant: str, principal: str, id: str, sealed: str, revision: str, now: float) -> Transaction[None]:
    yield from execute("store_credential", tenant, principal, id, revision, sealed, now)


def remove_credential(tenant: str, principal: str, id: str) -> Transaction[bool]:
    return (yield from execute("remove_credential", tenant, principal, id)).count > 0


def find_owners(id: str, limit: int) -> Transaction[list[tuple[str, str, float]]]:
    return [(row[0], row[1], row[2]) for row in (yield from execute("credential_owners", id, limit)).rows]


def forget_credentials(tenant: str, principal: str) -> Transaction[int]:
    return (yield from execute("forget_credentials", tenant, principal)).count


def lease_credential(tenant: str, principal: str, id: str, holder: str, until: float, now: float) -> Transaction[bool]:
    return (yield from execute("lease_credential", tenant, principal, id, holder, until, now)).count > 0


def release_credential(tenant: str, principal: str, id: str, holder: str) -> Transaction[None]:
    yield from execute("release_credential", tenant, principal, id, holder)


def reseal_page(
    reseal: Callable[[str], str | None], after: CredentialKey
) -> Transaction[tuple[ResealReport, CredentialKey | None]]:
    """Encrypt the credentials of one page anew, and return where the next page begins; None after the last.

    `reseal` returns the text for a text, the same one if it is good as it is, and None if it cannot be read. A
    credential that another process writes meanwhile is read again: what was written stays.
    """
    report = ResealReport()
    rows = (yield from execute("credentials_after", *after, _PAGE)).rows
    for row in rows:
        tenant, principal, id = after = (row[0], row[1], row[2])
        sealed: str | None = row[3]
        while sealed is not None:
            text = reseal(sealed)
            if text is None:
                report += ResealReport(unreadable=(after,))
            elif text == sealed:
                report += ResealReport(unchanged=1)
            elif (yield from execute("reseal_credential", text, tenant, principal, id, sealed)).count:
                report += ResealReport(changed=1)
            else:
                sealed = yield from find_credential(tenant, principal, id)
                continue
            break
    return report, after if len(rows) == _PAGE else None
