"""SqlRetention: removes what is old from a ledger, and one person's conversations. See `retention` for what goes.

A database with partitions (`partitions`) replaces the methods at the end; the others delete rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeVar

from ferrule.core.context import Principal
from ferrule.run.ledger import credentials, removal, retention, stored_requests, traces
from ferrule.run.ledger.claim import require_name
from ferrule.run.ledger.held_conversations import HeldConversations
from ferrule.run.ledger.ledger import Ledger
from ferrule.run.ledger.partitions import AUDIT, MESSAGES, Drop, Partition
from ferrule.run.ledger.prune_report import AfterBatch, PruneReport, no_pause
from ferrule.run.ledger.removal import DELETED, PRUNED, Candidate, Removal
from ferrule.run.ledger.retention import BATCH, HELD, UNKNOWN, due_weeks, is_within, waiting_weeks
from ferrule.run.ledger.transaction import Transaction

T = TypeVar("T")

_MAX_DELETE_PASSES = 5


class SqlRetention(Ledger):
    """The part of `SqlLedger` that removes."""

    _held: HeldConversations

    @abstractmethod
    async def _transact(self, transaction: Transaction[T], *, is_atomic: bool = False) -> T: ...

    async def prune(
        self,
        before: float,
        audit_before: float | None = None,
        *,
        now: float,
        is_dry_run: bool = False,
        whole_weeks: bool = False,
        after_batch: AfterBatch = no_pause,
    ) -> PruneReport:
        report = PruneReport()
        every_week = await self._weeks(MESSAGES)
        weeks = due_weeks(every_week, before)
        waiting = waiting_weeks(every_week, before) if whole_weeks else []
        last = (-(2**62), "")
        while page := await self._transact(retention.find_prunable(before, now, last)):
            last = (page[-1].born, page[-1].id)
            due = [one for one in page if self._is_due(one, audit_before, waiting, report)]
            if is_dry_run:
                report.conversations += len(due)
            else:
                removals = [
                    Removal.of(one, PRUNED, "retention", now, has_messages=is_within(weeks, one.born)) for one in due
                ]
                await self._remove_all(removals, now, report, after_batch)
        if not is_dry_run:
            for week in weeks:
                await self._end_week(week, report, after_batch)
            while count := await self._transact(traces.forget_traces(before), is_atomic=True):
                report.traces += count
                await after_batch(report)
            while await self._transact(retention.forget_requests(now), is_atomic=True):
                await after_batch(report)
            await self._forget_words()
        if audit_before is not None:
            every_week = await self._weeks(AUDIT)
            waiting = waiting_weeks(every_week, audit_before) if whole_weeks else []
            if not is_dry_run:
                await self._drop_audits(due_weeks(every_week, audit_before), audit_before, report)
            await self._prune_audits(audit_before, waiting, report, after_batch, is_dry_run=is_dry_run)
        return report

    def _is_due(
        self, one: Candidate, audit_before: float | None, waiting: Sequence[Partition], report: PruneReport
    ) -> bool:
        if is_within(waiting, one.born):
            return False
        is_unknown_due = one.reason == UNKNOWN and audit_before is not None and one.changed_at < audit_before
        if not one.reason or is_unknown_due:
            return True
        if one.reason != "recent":
            report.kept[one.reason] += 1
        return False

    async def _remove_all(
        self, removals: Sequence[Removal], now: float, report: PruneReport, after_batch: AfterBatch
    ) -> None:
        for start in range(0, len(removals), BATCH):
            gone = await self._remove(removals[start : start + BATCH], now - stored_requests.KEY_SECONDS)
            report.conversations += len(gone)
            for id in gone:
                self._held.drop(id)
            await after_batch(report)

    async def _end_week(self, week: Partition, report: PruneReport, after_batch: AfterBatch) -> None:
        """Drop the messages of a week, or delete those of its stubs if a conversation of the week is still in use."""
        match await self._drop_messages(week):
            case Drop.DONE:
                report.dropped.append(week.name)
            case Drop.BUSY:
                report.is_swept = False
            case Drop.NEEDED:
                while await self._sweep_messages(week):
                    await after_batch(report)

    async def _drop_audits(self, weeks: Sequence[Partition], before: float, report: PruneReport) -> None:
        for week in weeks:
            count = await self._drop_audit(week, before)
            if count is not None:
                report.audits += count
                report.dropped.append(week.name)

    async def _prune_audits(
        self,
        before: float,
        waiting: Sequence[Partition],
        report: PruneReport,
        after_batch: AfterBatch,
        *,
        is_dry_run: bool,
    ) -> None:
        last = (-(2**62), "")
        while page := await self._transact(retention.find_stubs(before, last)):
            last = (page[-1][1], page[-1][0])
            due = [one for one in page if not is_within(waiting, one[1])]
            if is_dry_run:
                report.audits += len(due)
                continue
            for start in range(0, len(due), BATCH):
                report.audits += await self._remove_stubs(due[start : start + BATCH])
                await after_batch(report)

    async def delete_principal(
        self,
        principal: Principal,
        by: str = "operator",
        *,
        now: float,
        is_dry_run: bool = False,
        after_batch: AfterBatch = no_pause,
    ) -> PruneReport:
        require_name(by, "a person's name")
        report = PruneReport()
        for _ in range(_MAX_DELETE_PASSES):
            missed = await self._delete_once(principal, by, now, report, after_batch, is_dry_run=is_dry_run)
            if is_dry_run or not missed:
                break
        forget = (principal.tenant, principal.name, now)
        while not is_dry_run and (count := await self._transact(retention.forget_person(*forget), is_atomic=True)):
            report.traces += count
            await after_batch(report)
        if not is_dry_run:
            await self._transact(credentials.forget_credentials(principal.tenant, principal.name))
            await self._forget_words()
        return report

    async def _forget_words(self) -> None:
        """Remove the words of what was removed from the index, where that is not done with the rows themselves."""

    async def _delete_once(
        self,
        principal: Principal,
        by: str,
        now: float,
        report: PruneReport,
        after_batch: AfterBatch,
        *,
        is_dry_run: bool,
    ) -> int:
        """Remove one person's conversations that nobody owns. Returns how many were changed since they were read."""
        missed, last = 0, ""
        report.held_ids.clear()
        while page := await self._transact(retention.find_deletable(principal.tenant, principal.name, now, last)):
            last = page[-1].id
            report.held_ids += [one.id for one in page if one.held_until > now]
            due = [one for one in page if one.held_until <= now]
            expected = report.conversations + len(due)
            if is_dry_run:
                report.conversations = expected
            else:
                await self._remove_all([Removal.of(one, DELETED, by, now) for one in due], now, report, after_batch)
                missed += expected - report.conversations
        report.kept[HELD] = len(report.held_ids)
        return missed

    async def _weeks(self, table: str) -> list[Partition]:
        """Return the partitions of a table, where there are any."""
        return []

    async def _remove(self, removals: Sequence[Removal], recent: float) -> set[str]:
        return await self._transact(removal.remove(removals, recent), is_atomic=True)

    async def _remove_stubs(self, stubs: Sequence[tuple[str, int, int]]) -> int:
        return await self._transact(removal.remove_stubs(stubs), is_atomic=True)

    async def _drop_messages(self, week: Partition) -> Drop:
        """Drop the messages of a week, unless a conversation of the week is still in use."""
        return Drop.NEEDED

    async def _drop_audit(self, week: Partition, before: float) -> int | None:
        """Drop the audit rows of a week with the stubs of its conversations. None if that cannot be done now."""
        return None

    async def _sweep_messages(self, week: Partition) -> int:
        """Delete messages of stubs of a week, at most a batch. Returns of how many stubs."""
        return 0
