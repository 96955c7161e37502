"""One ledger over several databases: where tenants are, what is refused, and what happens while one is away."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import socket
import sqlite3
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ferrule.core.context import Principal
from ferrule.errors import DefinitionError, LedgerError, LedgerUnavailableError
from ferrule.run.ledger.address import open_ledger
from ferrule.run.ledger.ledger import ApprovalState, CallState, Ledger, ResponseRecord, ResponseStatus, StoredRequest
from ferrule.run.ledger.placements import HERE
from ferrule.run.ledger.search import ConversationQuery
from ferrule.run.ledger.sharded_ledger import ShardedLedger
from ferrule.run.ledger.trace import TracedRequest, TraceQuery
from ferrule.run.tool_usage import UsageQuery
from run.kill_matrix import fork
from run.ledger_databases import LEASE, Database, claim, postgres_database, sharded_database
from run.watched_ledger import watch

TENANTS = [f"tenant-{number}" for number in range(60)]


def addresses(folder: Path, count: int) -> list[str]:
    return [str(folder / f"{number}.db") for number in range(count)]


def of(tenant: str) -> Principal:
    return Principal("ann", tenant)


async def open_one(ledger: Ledger, tenant: str, conversation: str = "", now: float = 0.0) -> None:
    await ledger.open(conversation or f"c-{tenant}", of(tenant), "one", LEASE, now=now)


async def sharded(where: Sequence[str]) -> ShardedLedger:
    ledger = await open_ledger(list(where))
    assert isinstance(ledger, ShardedLedger)
    return ledger


def databases_of(where: Sequence[str]) -> dict[str, list[int]]:
    """Return the numbers of the databases that have a conversation of each tenant, read past the ledger."""
    places: dict[str, list[int]] = {}
    for number, path in enumerate(where):
        connection = sqlite3.connect(path)
        tables = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'ferrule_conversation'").fetchall()
        rows = connection.execute("SELECT DISTINCT tenant FROM ferrule_conversation").fetchall() if tables else []
        connection.close()
        for (tenant,) in rows:
            places.setdefault(tenant, []).append(number)
    return places


async def two_tenants(ledger: ShardedLedger) -> tuple[str, str]:
    """Place tenants until there is one in each of two databases; return these two, in the order of the databases."""
    homes: dict[Ledger, str] = {}
    for tenant in TENANTS:
        await open_one(ledger, tenant)
        homes.setdefault(await ledger.of_tenant(tenant), tenant)
        if len(homes) == len(ledger.shards):
            break
    first, second = (homes[one] for one in ledger.shards)
    return first, second


@contextmanager
def silent_server() -> Iterator[str]:
    """Yield the address of a server that accepts connections and never says anything."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"postgresql://nobody@127.0.0.1:{server.getsockname()[1]}/none"


def absent_server() -> str:
    """Return an address at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"postgresql://nobody@127.0.0.1:{server.getsockname()[1]}/none"


# --- The interface ---


def methods(kind: type[Any]) -> dict[str, Any]:
    return {name: one for name, one in vars(kind).items() if not name.startswith("_") and inspect.isfunction(one)}


def test_every_method_of_a_ledger_is_one_of_a_sharded_ledger_with_the_same_parameters() -> None:
    assert not ShardedLedger.__abstractmethods__
    for name, method in methods(Ledger).items():
        assert name in methods(ShardedLedger), f"add {name} to ShardedLedger: one line, if it names something by its id"
        own = inspect.signature(methods(ShardedLedger)[name])
        assert [*own.parameters.values()] == [*inspect.signature(method).parameters.values()], name


# --- Where tenants are ---


def test_tenants_are_spread_over_all_databases_and_each_is_in_one(tmp_path: Path) -> None:
    where = addresses(tmp_path, 3)

    async def scenario() -> None:
        async with await sharded(where) as ledger:
            for tenant in TENANTS:
                await open_one(ledger, tenant)

    asyncio.run(scenario())
    places = databases_of(where)
    assert sorted(places) == sorted(TENANTS)
    counts = Counter(number for (number,) in places.values())
    # A third of them each, within four standard deviations.
    assert all(6 <= counts[number] <= 34 for number in range(3)), counts


def test_tenants_stay_where_they_are_when_a_database_is_added(tmp_path: Path) -> None:
    where = addresses(tmp_path, 3)

    async def open_all(some: Sequence[str], tenants: Sequence[str], name: str) -> None:
        async with await sharded(some) as ledger:
            for tenant in tenants:
                await open_one(ledger, tenant, f"{name}-{tenant}")

    asyncio.run(open_all(where[:2], TENANTS[:40], "first"))
    before = databases_of(where[:2])
    asyncio.run(open_all(where, TENANTS, "second"))
    after = databases_of(where)
    assert {tenant: after[tenant] for tenant in before} == before
    assert {number for tenant in TENANTS[40:] for number in after[tenant]} == {0, 1, 2}


def test_what_was_in_the_first_database_before_the_list_stays_there_and_is_found(tmp_path: Path) -> None:
    where = addresses(tmp_path, 3)

    async def scenario() -> None:
        async with await open_ledger(where[0]) as alone:
            for tenant in TENANTS:
                await open_one(alone, tenant)
        async with await sharded(where) as ledger:
            for tenant in TENANTS:
                assert [one.id for one in await ledger.conversations_of(tenant, ConversationQuery())] == [f"c-{tenant}"]
                record = await ledger.load(f"c-{tenant}", of(tenant))
                assert record is not None
                await open_one(ledger, tenant, f"later-{tenant}")

    asyncio.run(scenario())
    assert databases_of(where) == {tenant: [0] for tenant in TENANTS}


def test_databases_in_another_order_or_without_one_of_them_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    where = addresses(tmp_path, 3)

    async def fill() -> None:
        async with await sharded(where) as ledger:
            for tenant in TENANTS[:30]:
                await open_one(ledger, tenant)

    async def refusals(some: Sequence[str]) -> dict[str, str]:
        codes: dict[str, str] = {}
        async with await sharded(some) as ledger:
            for tenant in TENANTS:
                try:
                    await open_one(ledger, tenant, f"again-{tenant}", now=LEASE)
                except LedgerError as error:
                    codes[tenant] = error.code
        return codes

    asyncio.run(fill())
    before = databases_of(where)
    for some in ((where[1], where[0], where[2]), where[1:], (where[2], where[0], where[1])):
        # Tenants of a database that is in its place go on. No other one does, and no new one.
        codes = asyncio.run(refusals(some))
        in_place = [number for number, address in enumerate(some) if address == where[number]]
        assert {tenant for tenant in TENANTS if before.get(tenant) not in [[one] for one in in_place]} == {*codes}
        assert {*codes.values()} == {"ledger_list_changed"}
    assert databases_of(where) == before


def test_a_process_whose_list_is_too_short_for_a_tenant_says_that_another_may_be_asked(tmp_path: Path) -> None:
    where = addresses(tmp_path, 3)

    async def scenario() -> None:
        async with await sharded(where) as whole, await sharded(where[:2]) as short:
            for tenant in TENANTS:
                await open_one(whole, tenant)
            away = [tenant for tenant in TENANTS if await whole.of_tenant(tenant) is whole.shards[2]]
            assert away
            for tenant in TENANTS:
                if tenant in away:
                    with pytest.raises(LedgerUnavailableError) as refusal:
                        await open_one(short, tenant, f"again-{tenant}")
                    assert refusal.value.retryable
                    with pytest.raises(LedgerUnavailableError):
                        await short.conversations_of(tenant, ConversationQuery())
                else:
                    await open_one(short, tenant, f"again-{tenant}")

    asyncio.run(scenario())
    assert all(len(places) == 1 for places in databases_of(where).values())


def test_processes_with_lists_of_different_length_place_new_tenants_alike_at_the_same_time(tmp_path: Path) -> None:
    where = addresses(tmp_path, 3)

    async def work(some: Sequence[str], name: str) -> int:
        opened = 0
        async with await sharded(some) as ledger:
            for tenant in TENANTS:
                try:
                    await open_one(ledger, tenant, f"{name}-{tenant}")
                    opened += 1
                except LedgerUnavailableError:
                    continue
        return opened

    async def scenario() -> list[int]:
        # All have their tables, so that the processes meet at the tenants.
        await (await sharded(where)).close()
        lists = (where[:2], where, where[:2], where)
        return await asyncio.gather(*(work(some, f"p{number}") for number, some in enumerate(lists)))

    opened = asyncio.run(scenario())
    assert opened[1] == opened[3] == len(TENANTS)
    places = databases_of(where)
    assert sorted(places) == sorted(TENANTS)
    assert all(len(numbers) == 1 for numbers in places.values())


def fresh_folder(inside: Path) -> Path:
    folder = inside / f"fresh-{len(list(inside.iterdir()))}"
    folder.mkdir()
    return folder


def test_killed_at_any_moment_of_placing_a_tenant_every_other_process_agrees_where_it_is(tmp_path: Path) -> None:
    where = addresses(tmp_path, 3)

    def visit(tenant: str, some: Sequence[str], name: str, at: Callable[[str], None] = lambda point: None) -> None:
        async def scenario() -> None:
            async with await sharded(some) as ledger:
                watch(ledger, lambda one: at(f"{one.number}/{one.at}"))
                await open_one(ledger, tenant, f"{name}-{tenant}")

        asyncio.run(scenario())
        os._exit(0)

    assert fork(lambda: visit("rehearsal", where, "none")) == 0
    points = [f"{transaction}/{at}" for transaction in range(1, 12) for at in (1, 2)]
    # Also in databases that nobody has opened, which are given their numbers first.
    rounds = [(point, where, f"killed-{number}") for number, point in enumerate(points)]
    rounds += [(point, addresses(fresh_folder(tmp_path), 3), "killed") for point in points[:8]]
    kills = 0
    for number, (point, where, tenant) in enumerate(rounds):

        def die(here: str, target: str = point) -> None:
            if here == target:
                os.kill(os.getpid(), signal.SIGKILL)

        some, others = where[: 2 + number % 2], where[: 3 - number % 2]
        died = fork(lambda tenant=tenant, some=some, die=die: visit(tenant, some, "dead", die))
        kills += died == signal.SIGKILL
        # One with the other list comes next. It may be told that its list is too short.
        fork(lambda tenant=tenant, others=others: visit(tenant, others, "next"))
        assert fork(lambda tenant=tenant, where=where: visit(tenant, where, "last")) == 0
        assert len(databases_of(where)[tenant]) == 1, point
    assert kills >= 15, kills


def test_a_list_names_each_database_once_and_at_least_one(tmp_path: Path) -> None:
    for some in ([], [str(tmp_path / "a.db")] * 2):
        with pytest.raises(DefinitionError):
            asyncio.run(sharded(some))


@pytest.mark.parametrize("tenant", ["", "\x00", "a\x00b", "\ud800", "x" * 257, "a\nb"])
def test_a_name_that_no_tenant_can_have_is_refused_as_by_one_database_and_stored_nowhere(
    tenant: str, tmp_path: Path
) -> None:
    async def results(ledger: Ledger) -> list[object]:
        traced = TracedRequest(id="request_1", tenant="acme", principal="ann", at=0.0, api="chat")
        works: list[Callable[[], Coroutine[Any, Any, Any]]] = [
            lambda: ledger.open("c", of(tenant), "one", LEASE, now=0),
            lambda: ledger.load("c", of(tenant)),
            lambda: ledger.conversations_of(tenant, ConversationQuery()),
            lambda: ledger.approvals_of(tenant),
            lambda: ledger.traces_of(tenant, TraceQuery()),
            lambda: ledger.trace("t", tenant),
            lambda: ledger.usage_report(UsageQuery(tenant=tenant)),
            lambda: ledger.response("r", of(tenant)),
            lambda: ledger.record_requests([traced]),
        ]
        told: list[object] = []
        for work in works:
            try:
                told.append(await work())
            except LedgerError as error:
                told.append(error.code)
        return told

    async def scenario() -> None:
        where = addresses(tmp_path, 2)
        async with await sharded(where) as ledger, await open_ledger(str(tmp_path / "alone.db")) as alone:
            assert await results(ledger) == await results(alone)
            request = StoredRequest("answer", tenant, "ann", "chat", "0" * 64, "key", 0.0, "null")
            with pytest.raises(LedgerError):
                await ledger.claim_request(request, is_retry=False, now=0.0)
            for one in ledger.shards:
                assert await one.load("c") is None

    asyncio.run(scenario())
    for path in addresses(tmp_path, 2):
        connection = sqlite3.connect(path)
        assert connection.execute("SELECT tenant FROM ferrule_tenant WHERE tenant <> 'acme'").fetchall() == []
        connection.close()


@pytest.mark.parametrize(
    "tenant", ["'; DROP TABLE ferrule_tenant; --", "%", "../../etc", "\u202eevil", "\U0001f980", "0/a"]
)
def test_a_strange_name_is_only_a_name(tenant: str, tmp_path: Path) -> None:
    where = addresses(tmp_path, 3)

    async def scenario() -> None:
        async with await sharded(where) as ledger:
            await open_one(ledger, tenant, "c")
        async with await sharded(where) as ledger:
            assert [one.id for one in await ledger.conversations_of(tenant, ConversationQuery())] == ["c"]

    asyncio.run(scenario())
    assert [*databases_of(where)] == [tenant]


# --- Where ids are ---


def test_the_same_id_in_two_databases_is_never_mixed_up(tmp_path: Path) -> None:
    where = addresses(tmp_path, 2)

    async def scenario() -> None:
        async with await sharded(where) as one, await sharded(where) as other, await sharded(where) as third:
            a, b = await two_tenants(one)
            await open_one(one, a, "same")
            # In the process that knows it, the id is taken, and the other tenant finds nothing.
            with pytest.raises(LedgerError) as refusal:
                await open_one(one, b, "same")
            assert refusal.value.code == "conversation_taken"
            assert await one.load("same", of(b)) is None
            assert await one.shards[1].load("same") is None
            # Another process has never heard of it.
            await open_one(other, b, "same")
            await other.save("same", 1, {"whose": b}, now=1)
            await one.save("same", 1, {"whose": a}, now=1)
            for ledger, tenant in ((one, a), (other, b)):
                record = await ledger.load("same", of(tenant))
                assert record is not None
                assert (record.tenant, record.state) == (tenant, {"whose": tenant})
            # A third one is told by both that they have it, and uses neither.
            works: list[Callable[[], Coroutine[Any, Any, Any]]] = [
                lambda: third.load("same"),
                lambda: third.calls("same"),
                lambda: third.audit("same"),
                lambda: third.save("same", 1, {"whose": "nobody"}, now=2),
                lambda: third.take_over("same", "thief", LEASE, now=1000),
            ]
            for work in works:
                with pytest.raises(LedgerError) as refusal:
                    await work()
                assert refusal.value.code == "conversation_taken"
            # Until it is opened by its tenant: then the id leads there, and the other one's is not found.
            mine = await third.load("same", of(a))
            assert mine is not None
            assert mine.state == {"whose": a}
            assert await third.load("same", of(b)) is None
            assert await third.verify() is None

    asyncio.run(scenario())


def test_an_approval_is_decided_by_a_process_that_has_never_seen_it(tmp_path: Path) -> None:
    where = addresses(tmp_path, 3)

    async def scenario() -> None:
        async with await sharded(where) as ledger:
            for tenant in TENANTS[:12]:
                await open_one(ledger, tenant)
                await ledger.propose(
                    claim(f"c-{tenant}", tenant=tenant), 1, side_effects=True, needs_approval=True, now=0
                )
                await ledger.request_approval(f"c-{tenant}", "k", 1, expires=5, now=0)
            pending = await ledger.approvals(ApprovalState.PENDING)
            assert len(pending) == 12
            for number, approval in enumerate(pending):
                async with await sharded(where) as stranger:
                    if number % 2:
                        assert (await stranger.deny(approval.id, "bob", now=1)).state is ApprovalState.DENIED
                        continue
                    assert (await stranger.approve(approval.id, "bob", now=1)).state is ApprovalState.APPROVED
                what = claim(approval.conversation, tenant=approval.tenant)
                assert await ledger.start(what, 1, approval=approval.id, now=2)
                with pytest.raises(LedgerError):
                    await ledger.start(what, 1, approval=approval.id, now=2)
            async with await sharded(where) as stranger:
                with pytest.raises(LedgerError) as refusal:
                    await stranger.approve("0" * 32, "bob", now=1)
                assert refusal.value.code == "approval_unknown"

    asyncio.run(scenario())


def test_a_stored_answer_is_found_by_its_id_in_a_process_that_has_never_seen_it(tmp_path: Path) -> None:
    where = addresses(tmp_path, 2)

    async def scenario() -> None:
        async with await sharded(where) as ledger, await sharded(where) as stranger:
            for tenant in await two_tenants(ledger):
                request = StoredRequest(f"r-{tenant}", tenant, "ann", "responses", "0" * 64, "key", 0.0, "{}")
                assert await ledger.claim_request(request, is_retry=False, now=0.0) == request
                record = ResponseRecord(
                    *(f"r-{tenant}", f"c-{tenant}", tenant, "ann", ResponseStatus.IN_PROGRESS, "m", 0.0, 0, False, "{}")
                )
                await ledger.add_response(record, 1, ['{"n":0}'], now=0.0)
                await ledger.append_events(record.id, 1, ['{"n":1}'], first=1, now=0.0)
                assert await stranger.response_events(record.id) == ('{"n":0}', '{"n":1}')
                assert await stranger.response(record.id) == record
                assert await stranger.stored_request(record.id) == request
                # The same key in another process is the same request.
                again = StoredRequest("other", tenant, "ann", "responses", "0" * 64, "key", 1.0, "{}")
                assert (await stranger.claim_request(again, is_retry=False, now=1.0)).answer == record.id
            found = await stranger.unfinished_responses(10, now=LEASE + 1)
            assert len(found) == 2
            assert len(await stranger.unfinished_responses(1, now=LEASE + 1)) == 1

    asyncio.run(scenario())


def test_a_report_and_the_audit_are_over_all_databases(tmp_path: Path) -> None:
    where = addresses(tmp_path, 2)

    async def scenario() -> None:
        async with await sharded(where) as ledger:
            first, second = await two_tenants(ledger)
            assert await ledger.verify() is None
            assert await ledger.audit("nowhere") == ()
        for number, tenant in enumerate((first, second)):
            connection = sqlite3.connect(where[number], isolation_level=None)
            connection.execute("UPDATE ferrule_audit SET kind = 'closed' WHERE conversation = ?", [f"c-{tenant}"])
            connection.close()
            async with await sharded(where) as ledger:
                breach = await ledger.verify()
                assert breach is not None
                assert breach.conversation == f"c-{tenant}"
            connection = sqlite3.connect(where[number], isolation_level=None)
            connection.execute("UPDATE ferrule_audit SET kind = 'opened' WHERE conversation = ?", [f"c-{tenant}"])
            connection.close()

    asyncio.run(scenario())


# --- What is away ---


@pytest.mark.parametrize("is_silent", [False, True], ids=["absent", "silent"])
def test_one_database_that_is_away_stops_its_own_tenants_and_no_sweep(is_silent: bool, tmp_path: Path) -> None:
    async def scenario(away: str) -> None:
        failures: list[LedgerError] = []
        async with await sharded([str(tmp_path / "0.db"), away]) as ledger:
            ledger.on_failure = failures.append
            homes: dict[bool, list[str]] = {True: [], False: []}

            async def try_tenant(tenant: str) -> None:
                try:
                    await open_one(ledger, tenant)
                    homes[True].append(tenant)
                except LedgerUnavailableError:
                    homes[False].append(tenant)

            if is_silent:
                # Its own tenants wait for it; nobody else does.
                works = [asyncio.ensure_future(try_tenant(tenant)) for tenant in TENANTS]
                while sum(one.done() for one in works) < len(homes[True]) or len(homes[True]) < 15:
                    await asyncio.sleep(0.01)
                waiting = [one for one in works if not one.done()]
            else:
                await asyncio.gather(*map(try_tenant, TENANTS))
                assert len(homes[False]) >= 15
                waiting = []
            assert len(homes[True]) >= 15
            tenant = homes[True][0]
            # All of it works for a tenant of the other database.
            what = claim(f"c-{tenant}", tenant=tenant)
            await ledger.propose(what, 1, side_effects=True, needs_approval=True, now=0)
            approval = await ledger.request_approval(what.conversation, "k", 1, expires=5, now=0)
            async with await sharded([str(tmp_path / "0.db"), away]) as stranger:
                assert (await stranger.approve(approval.id, "bob", now=1)).state is ApprovalState.APPROVED
                record = await stranger.call(what.conversation, "k")
                assert record is not None
                assert record.state is CallState.APPROVED
            assert [one.conversation for one in await ledger.due_continuations(10, now=LEASE + 1)] == [f"c-{tenant}"]
            assert failures
            assert all(isinstance(one, LedgerUnavailableError) for one in failures)
            assert await ledger.unfinished_responses(10, now=1) == ()
            assert await ledger.claim_deliveries(10, until=2, now=1) == ()
            assert await ledger.forget_traces(0) == 0
            # What would not be complete is not told.
            if not is_silent:
                for work in (ledger.verify, ledger.approvals, lambda: ledger.usage_report(UsageQuery())):
                    with pytest.raises(LedgerUnavailableError):
                        await work()
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    if is_silent:
        with silent_server() as away:
            asyncio.run(scenario(away))
    else:
        asyncio.run(scenario(absent_server()))


def test_a_silent_database_is_asked_once_and_not_again_until_it_has_answered(tmp_path: Path) -> None:
    async def scenario(away: str) -> None:
        async with await sharded([str(tmp_path / "0.db"), away]) as ledger:
            assert await ledger.forget_traces(0) == 0
            question = ledger._shards[1].late  # pyright: ignore[reportPrivateUsage]
            assert question is not None
            for _ in range(50):
                assert await ledger.forget_traces(0) == 0
            assert ledger._shards[1].late is question  # pyright: ignore[reportPrivateUsage]
            assert not question.done()

    with silent_server() as away:
        asyncio.run(scenario(away))


# --- Postgres ---


@pytest.mark.live
def test_two_postgres_databases_are_one_ledger(cluster: Path) -> None:
    database: Database = sharded_database(postgres_database(cluster), postgres_database(cluster))

    async def scenario(ledger: ShardedLedger) -> None:
        a, b = await two_tenants(ledger)
        async with await sharded(database.where) as stranger:
            for tenant in (a, b):
                what = claim(f"c-{tenant}", tenant=tenant)
                await ledger.propose(what, 1, side_effects=True, needs_approval=True, now=0)
                approval = await ledger.request_approval(what.conversation, "k", 1, expires=5, now=0)
                await stranger.approve(approval.id, "bob", now=1)
                assert await ledger.start(what, 1, approval=approval.id, now=2)
        assert await ledger.verify() is None
        assert [await one.placement(a) for one in ledger.shards] == [HERE, None]
        assert (await ledger.shards[1].placement(b)) == HERE

    database.run(scenario)
