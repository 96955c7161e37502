"""Which tenants have keys, in each database."""

from __future__ import annotations

from ferrule.run.ledger.keys import KeyPermissions, KeyRecord
from ferrule.run.ledger.sql import SqlLedger
from run.ledger_databases import Database


def record(id: str, tenant: str) -> KeyRecord:
    return KeyRecord(
        id=id,
        sha256=id,
        name="app",
        tenant=tenant,
        permissions=KeyPermissions(operator=True),
        created_at=1,
        created_by="x",
    )


def test_the_tenants_of_keys_are_known_also_when_their_keys_have_ended(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        assert await ledger.key_tenants() == ()
        for id in ("a", "b"):
            await ledger.add_key(record(id, "acme"))
        assert await ledger.key_tenants() == ("acme",)
        await ledger.add_key(record("c", "Zürich"))
        await ledger.add_key(record("d", "evil"))
        await ledger.revoke_key("c", "x", now=2)
        await ledger.revoke_key("d", "x", now=2)
        # Two are enough to know that there are several.
        tenants = await ledger.key_tenants()
        assert len({*tenants} & {"acme", "evil", "Zürich"}) == 2
        found = await ledger.key("a")
        assert found is not None
        assert (found.permissions.operator, found.permissions.admin) == (True, False)

    database.run(scenario)
