"""Credentials in a ledger: encrypted, of one principal and one server, renewed by one process at a time."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import asdict, replace

import pytest

from ferrule.core.context import Principal
from ferrule.errors import DefinitionError
from ferrule.run.ledger.address import open_ledger
from ferrule.run.ledger.ledger import Ledger
from ferrule.run.ledger.reseal_report import ResealReport
from ferrule.sources.mcp.credentials import Cipher, Credentials, CredentialsError
from ferrule.sources.mcp.sealed_credentials import SealedCredentials
from run.ledger_databases import ANN, Database

KEY, NEW_KEY, LOST_KEY = "0123456789abcdef" * 4, "f" * 64, "e" * 64
KEPT = Credentials({"access_token": "a-secret"}, 7.0, {"client_id": "c"}, {"issuer": "i"}, {"resource": "r"})


def ann(ledger: Ledger, *keys: str) -> SealedCredentials:
    return SealedCredentials(ledger, keys or (KEY,), ANN.tenant, ANN.name)


def test_credentials_come_back_whole_in_another_process_and_the_database_cannot_read_them(database: Database) -> None:
    async def write(ledger: Ledger) -> None:
        store = ann(ledger)
        assert await store.read("one") is None
        before = await store.version("one")
        await store.write("one", KEPT)
        assert before != await store.version("one")

    async def read(ledger: Ledger) -> None:
        store = ann(ledger)
        assert await store.read("one") == KEPT
        assert await store.remove("one")
        assert not await store.remove("one")
        assert await store.read("one") is None

    database.run(write)
    rows = database.execute("SELECT * FROM ferrule_credential WHERE tenant = ?", [ANN.tenant])
    assert len(rows) == 1
    assert "a-secret" not in str(rows)
    database.run(read)


def test_nobody_else_finds_a_principals_credentials(database: Database) -> None:
    others = [("", ""), (ANN.tenant, ""), (ANN.tenant, "bob"), ("evil", ANN.name), ("", ANN.name)]

    async def scenario(ledger: Ledger) -> None:
        await ann(ledger).write("one", KEPT)
        for tenant, principal in others:
            other = SealedCredentials(ledger, (KEY,), tenant, principal)
            assert await other.read("one") is None
            assert not await other.remove("one")
            await other.write("one", Credentials())
        assert await ann(ledger).read("one") == KEPT

    database.run(scenario)


@pytest.mark.parametrize("moved", ["principal = 'eve'", "id = 'two'"])
def test_a_row_that_somebody_has_moved_is_refused(single_database: Database, moved: str) -> None:
    async def write(ledger: Ledger) -> None:
        await ann(ledger).write("one", KEPT)

    async def read(ledger: Ledger) -> None:
        for name, id in ((ANN.name, "two"), ("eve", "one")):
            store = SealedCredentials(ledger, (KEY,), ANN.tenant, name)
            if await ledger.credential(ANN.tenant, name, id) is not None:
                with pytest.raises(CredentialsError, match="belongs to another"):
                    await store.read(id)
                return
        pytest.fail("nothing was moved")

    single_database.run(write)
    single_database.execute(f"UPDATE ferrule_credential SET {moved}", [])
    single_database.run(read)


def test_keys_are_replaced_one_after_another(single_database: Database) -> None:
    async def scenario(ledger: Ledger) -> None:
        await ann(ledger).write("one", KEPT)
        both = ann(ledger, NEW_KEY, KEY)
        assert await both.read("one") == KEPT
        with pytest.raises(CredentialsError, match="another key"):
            await ann(ledger, NEW_KEY).read("one")
        await both.write("one", KEPT)
        assert await ann(ledger, NEW_KEY).read("one") == KEPT
        with pytest.raises(CredentialsError, match="another key"):
            await ann(ledger).read("one")

    single_database.run(scenario)


def test_all_credentials_are_encrypted_with_the_newest_key_and_others_stay_as_they_are(database: Database) -> None:
    accounts = [("", ""), ("acme", ""), *(("acme", f"user{number}") for number in range(250)), ("other", "ann")]

    async def scenario(ledger: Ledger) -> None:
        for tenant, principal in accounts:
            await SealedCredentials(ledger, (KEY,), tenant, principal).write("one", KEPT)
        await ann(ledger, NEW_KEY).write("two", KEPT)
        await ann(ledger, LOST_KEY).write("three", KEPT)
        revision = await ledger.credential_revision("acme", "user7", "one")
        report = await ledger.reseal_credentials(Cipher((NEW_KEY, KEY)).reseal)
        assert report == ResealReport(len(accounts), 1, ((ANN.tenant, ANN.name, "three"),))
        for tenant, principal in accounts:
            assert await SealedCredentials(ledger, (NEW_KEY,), tenant, principal).read("one") == KEPT
        # What is in it is the same, so no process has to read it again.
        assert await ledger.credential_revision("acme", "user7", "one") == revision
        again = await ledger.reseal_credentials(Cipher((NEW_KEY, KEY)).reseal)
        assert (again.changed, again.unchanged) == (0, len(accounts) + 1)

    database.run(scenario)


def test_a_token_that_another_process_renews_meanwhile_is_not_lost(single_database: Database) -> None:
    """The other process writes between the reading and the writing of each entry, through a connection of its own."""
    names = [f"user{number}" for number in range(20)]

    def renewed(name: str, times: int) -> Credentials:
        return replace(KEPT, tokens={"access_token": f"{name} {times}"})

    async def scenario(ledger: Ledger) -> None:
        times: Counter[str] = Counter()
        async with await open_ledger(single_database.where) as other:
            stores = {name: SealedCredentials(other, (NEW_KEY, KEY), "acme", name) for name in names}
            for name in names:
                await SealedCredentials(other, (KEY,), "acme", name).write("one", renewed(name, 0))

            async def renew(name: str) -> None:
                async with stores[name].lock("one"):
                    kept = await stores[name].read("one")
                    assert kept == renewed(name, times[name])
                    times[name] += 1
                    await stores[name].write("one", renewed(name, times[name]))

            async def renew_all() -> None:
                for _ in range(5):
                    await asyncio.gather(*map(renew, names))

            renewing = asyncio.ensure_future(renew_all())
            changed = 0
            while not renewing.done():
                changed += (await ledger.reseal_credentials(Cipher((NEW_KEY, KEY)).reseal)).changed
            await renewing
            assert (await ledger.reseal_credentials(Cipher((NEW_KEY, KEY)).reseal)).changed == 0
            for name in names:
                assert await SealedCredentials(ledger, (NEW_KEY,), "acme", name).read("one") == renewed(name, 5)
        assert changed <= len(names)

    single_database.run(scenario)


def test_an_entry_that_changes_between_reading_and_writing_is_read_again(single_database: Database) -> None:
    newer = replace(KEPT, tokens={"access_token": "newer"})

    async def scenario(ledger: Ledger) -> None:
        await ann(ledger).write("one", KEPT)
        later = Cipher((KEY,)).seal({"credentials": asdict(newer), "for": [ANN.tenant, ANN.name, "one"]})
        cipher, seen = Cipher((NEW_KEY, KEY)), list[str]()

        def reseal(text: str) -> str | None:
            if not seen:
                # A process that has the old key alone writes now.
                single_database.execute("UPDATE ferrule_credential SET sealed = ?, revision = 'r2'", [later])
            seen.append(text)
            return cipher.reseal(text)

        assert await ledger.reseal_credentials(reseal) == ResealReport(changed=1)
        assert (len(seen), seen[1]) == (2, later)
        assert await ann(ledger, NEW_KEY).read("one") == newer

    single_database.run(scenario)


def test_a_ledger_without_a_key_is_refused(single_database: Database) -> None:
    async def scenario(ledger: Ledger) -> None:
        with pytest.raises(DefinitionError, match="there is no key"):
            SealedCredentials(ledger, ())

    single_database.run(scenario)


def test_one_process_at_a_time_holds_the_lock_of_a_server(database: Database) -> None:
    inside: list[str] = []

    async def hold(store: SealedCredentials, name: str) -> None:
        async with store.lock("one"):
            inside.append(name)
            for _ in range(20):
                await asyncio.sleep(0)
            inside.append(name)

    async def scenario(ledger: Ledger) -> None:
        names = [str(number) for number in range(6)]
        await asyncio.gather(*(hold(ann(ledger), name) for name in names))
        assert sorted(inside) == sorted(names * 2)
        assert all(inside[at] == inside[at + 1] for at in range(0, len(inside), 2)), inside

    database.run(scenario)


def test_the_lock_of_a_process_that_died_ends_and_another_servers_is_free(database: Database) -> None:
    now = [1000.0]

    async def scenario(ledger: Ledger) -> None:
        # What a process leaves that dies inside.
        assert await ledger.lease_credential(ANN.tenant, ANN.name, "one", "dead", now[0] + 60, now=now[0])
        store = SealedCredentials(ledger, (KEY,), ANN.tenant, ANN.name, clock=lambda: now[0])
        async with store.lock("two"):
            waiting = asyncio.ensure_future(_locked(store))
        assert not waiting.done()
        now[0] += 61
        await waiting
        # The one that is late releases nothing of the new holder's.
        assert await ledger.lease_credential(ANN.tenant, ANN.name, "one", "new", now[0] + 60, now=now[0])
        await ledger.release_credential(ANN.tenant, ANN.name, "one", "dead")
        assert not await ledger.lease_credential(ANN.tenant, ANN.name, "one", "other", now[0] + 60, now=now[0])

    database.run(scenario)


async def _locked(store: SealedCredentials) -> None:
    async with store.lock("one"):
        pass


def test_a_holder_that_takes_long_keeps_its_lock(single_database: Database) -> None:
    async def scenario(ledger: Ledger) -> None:
        store = SealedCredentials(ledger, (KEY,), ANN.tenant, ANN.name, lease_seconds=0.3)
        async with store.lock("one"):
            ends = [await _lease_end(single_database)]
            while len(ends) < 4:
                await asyncio.sleep(0.01)
                end = await _lease_end(single_database)
                ends += [end] * (end != ends[-1])
        assert ends == sorted(ends)
        assert await _lease_end(single_database) == 0

    single_database.run(scenario)


async def _lease_end(database: Database) -> float:
    rows = await asyncio.to_thread(database.execute, "SELECT until FROM ferrule_credential_lease", [])
    return rows[0][0] if rows else 0.0


def test_who_is_removed_from_the_ledger_is_signed_in_nowhere(database: Database) -> None:
    async def scenario(ledger: Ledger) -> None:
        bob = SealedCredentials(ledger, (KEY,), ANN.tenant, "bob")
        for store in (ann(ledger), bob):
            await store.write("one", KEPT)
        await ledger.delete_principal(Principal(ANN.name, ANN.tenant), now=10)
        assert await ann(ledger).read("one") is None
        assert await bob.read("one") == KEPT

    database.run(scenario)
