"""What models chose, as work: writing a selection down, and the figures of many. Knows no database.

A set of tools on offer is kept once, by the fingerprints in it, and each definition's name and description once: what
grows with every reply is one row, and one for each call. What became of a call stands in the calls already.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from ferrule.core.json_text import digest, loads
from ferrule.core.tool import ToolDefinition
from ferrule.run.ledger.claim import kept_json
from ferrule.run.ledger.ledger import CallState, ConversationRecord
from ferrule.run.ledger.transaction import Row, Work, say
from ferrule.run.reply_record import Replied
from ferrule.run.tool_usage import PICKED, Fate, Selection
from ferrule.run.usage_figures import Misnamed, SelectionFigures, SelectionLine, SelectionSearch, Tally

MOST_MISNAMED = 100
_FAILED = frozenset({CallState.FAILED.value, CallState.UNKNOWN.value})
_Key = tuple[str, str]


def noted_selection(held: ConversationRecord, replied: Replied, selection: Selection, now: float) -> Work[None]:
    """Where a model is asked again after a crash, what it chooses then takes the place of what was lost."""
    fingerprints = {tool.name: tool.fingerprint for tool in selection.offered}
    offer = yield from _offered(selection.offered, fingerprints)
    where = (replied.conversation, replied.place)
    yield from say("forget_picks", *where)
    yield from say("forget_selection", *where)
    demanded = fingerprints.get(selection.demanded, "")
    about = (kept_json(replied.model), offer, demanded, int(selection.is_required), int(selection.is_unanswered))
    yield from say("add_selection", *where, held.tenant, held.principal, float(now), *about)
    for number, pick in enumerate(selection.picks):
        call_id = "" if pick.number is None else f"{replied.place}.{pick.number}"
        told = (fingerprints.get(pick.tool, ""), call_id, pick.fate.value, kept_json(pick.wrote))
        yield from say("add_pick", *where, number, *told, int(pick.is_retried), int(pick.is_repeated))


def found_selections(search: SelectionSearch) -> Work[SelectionFigures]:
    where = "_everywhere" if search.tenant is None else ""
    anyone = int(search.principal is None)
    whose = (search.tenant or "", anyone, search.principal or "", float(search.since))
    offers = (yield from say(f"offers_counted{where}", *whose, search.tool, search.tool)).rows
    picks = (yield from say(f"picks_counted{where}", *whose)).rows
    demands = (yield from say(f"demands_counted{where}", *whose)).rows
    misnamed = (yield from say(f"misnamings_counted{where}", *whose, MOST_MISNAMED)).rows
    tallies = _tallied(offers, picks, demands)
    known = {(row[0], row[1]): row for row in offers}
    lines = [
        _line(key, known.get(key), tally)
        for key, tally in tallies.items()
        # Of a definition that was not asked for nothing is told, and neither is what is about no tool.
        if key in known or not (search.tool or key[1])
    ]
    names = {fingerprint: row[2] for (_, fingerprint), row in known.items()}
    # By the tool and not by its definition: a name is made up whatever the description says.
    made_up: dict[tuple[str, str, str], int] = {}
    for model, fingerprint, wrote, count in misnamed:
        if fingerprint in names or not (search.tool or fingerprint):
            key = (_text(model), _text(wrote), names.get(fingerprint, ""))
            made_up[key] = made_up.get(key, 0) + int(count)
    most = sorted(made_up.items(), key=lambda one: (-one[1], one[0]))
    return SelectionFigures(tuple(sorted(lines, key=_by_use)), tuple(Misnamed(*key, count) for key, count in most))


def _offered(tools: tuple[ToolDefinition, ...], fingerprints: Mapping[str, str]) -> Work[str]:
    """The id of a set of tools, which is written down where it is new."""
    offer = digest(sorted(fingerprints.values()))
    if not (yield from say("has_offer", offer)).rows:
        # In one order everywhere: two who write the same rows wait for each other, and never both.
        for tool in sorted(tools, key=lambda one: fingerprints[one.name]):
            fingerprint = fingerprints[tool.name]
            yield from say("add_definition", fingerprint, tool.name, kept_json(tool.description))
            yield from say("add_offer", offer, fingerprint)
    return offer


def _tallied(offers: list[Row], picks: list[Row], demands: list[Row]) -> dict[_Key, Tally]:
    """Every number by model and definition, both as they are written."""
    found: dict[_Key, Tally] = {}

    def add(model: str, fingerprint: str, tally: Tally) -> None:
        found[model, fingerprint] = found.get((model, fingerprint), Tally()) + tally

    for model, fingerprint, _, _, count, _, _ in offers:
        add(model, fingerprint, Tally(offered=int(count)))
    for model, fingerprint, fate, state, count, retried, repeated in picks:
        add(model, fingerprint, _of_picks(Fate(fate), state, int(count), int(retried), int(repeated)))
    for model, fingerprint, count, unanswered in demands:
        demanded = int(count) if fingerprint else 0
        if demanded or unanswered:
            add(model, fingerprint, Tally(demanded=demanded, missed=int(unanswered)))
    return found


def _of_picks(fate: Fate, state: str, count: int, retried: int, repeated: int) -> Tally:
    """So many calls that went the same way."""
    is_picked = fate in PICKED
    return Tally(
        picked=count * is_picked,
        repaired=count * (fate is Fate.REPAIRED),
        refused=count * (fate is Fate.REFUSED),
        cut_off=count * (fate is Fate.CUT_OFF),
        missed=count * (fate is Fate.NOT_OFFERED),
        failed=count * (is_picked and state in _FAILED),
        denied=count * (is_picked and state == CallState.DENIED.value),
        retried=retried,
        repeated=repeated,
    )


def _line(key: _Key, known: Row | None, tally: Tally) -> SelectionLine:
    model, fingerprint = key
    if known is None:
        return SelectionLine(_text(model), "", fingerprint, "", None, None, tally)
    _, _, tool, description, _, first, last = known
    return SelectionLine(_text(model), tool, fingerprint, _text(description), first, last, tally)


def _by_use(line: SelectionLine) -> tuple[int, int, str, str, float]:
    return -line.tally.picked, -line.tally.offered, line.tool, line.model, line.first_at or 0.0


def _text(kept: str) -> str:
    return cast("str", loads(kept))
