"""The tables, the pictures and the verdicts of `scripts/bench-ledger`, from its figures. Measures nothing itself.

Figures are JSON: a part, then what the part measured. A part that was not measured is left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ferrule.bench.tables import Table
from lab.growth_plot import Panel, plot
from lab.ledger_content import LISTS

Figures = Mapping[str, Any]
Versions = Mapping[str, Figures]
LEASE_SECONDS: Final = 10.0
PART_NAMES: Final = ("turns", "length", "calls", "answers", "growth", "idle")
_RATE_GOALS: Final = {"1": 0.4, "8": 0.6, "32": 0.8}
_LIST_GOALS: Final = {
    **{name: 5e-3 if name == "sweep" else 100e-3 if name.startswith("search") else 20e-3 for name in LISTS}
}
_GOAL_SIZE: Final = "100000"
_GOALS_ABOUT: Final = (
    "Turns are those of an open conversation (*next* below). A call is recorded by the ledger's own methods, or, where "
    "these are not known, in a conversation. A kept answer has two transactions and its share of twenty in a second. "
    "Wall times and rates are those of a machine with the load that is named above."
)
_GROWTH_ABOUT: Final = (
    "Milliseconds of CPU, of the program and the server together, in a ledger of so many conversations of one tenant: "
    "one in ten waits for an approval, one in a hundred is a stored response under way, half have a trace. *wall* is "
    "the smallest wall time at the largest size. A page has fifty rows; the sweep looks for stored responses whose "
    "process has died, of which there are none."
)


@dataclass(frozen=True, slots=True)
class Goal:
    """One goal: its words, and what was measured; None where it was not."""

    name: str
    target: float
    value: float | None
    is_floor: bool = False
    unit: str = ""

    @property
    def is_met(self) -> bool:
        return self.value is not None and (
            self.value >= self.target if self.is_floor else self.value <= self.target * 1.0001
        )

    @property
    def words(self) -> str:
        return f"{'at least' if self.is_floor else 'at most'} {number(self.target)}{self.unit}"

    @property
    def verdict(self) -> str:
        if self.value is None:
            return "-"
        return f"{number(self.value)}{self.unit} ({'met' if self.is_met else 'missed'})"


def number(value: float) -> str:
    """A figure with three digits that count."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def goals(figures: Figures) -> Iterator[Goal]:
    """The goals of a ledger, with what these figures say about them."""
    turns = figures.get("turns", {})
    for name, target in (("one reading tool", 2.0), ("one effect", 4.0)):
        counts = turns.get(name, {}).get("next", {})
        yield Goal(f"transactions of a turn: {name}", target, counts.get("transactions"))
        trips = counts["round_trips"] / counts["transactions"] if counts else None
        yield Goal(f"round trips of a transaction: {name}", 1.0, trips)
    yield from _length_goals(figures.get("length", {}))
    yield from _call_goals(figures.get("calls", {}))
    for width, answers in figures.get("answers", {}).items():
        share = 2 + 20 / answers["answers/s"]
        yield Goal(f"transactions of a kept answer, {width} at once", share, answers["writing"])
        yield Goal(f"how long an event waits, p95, {width} at once", 150, 1e3 * answers["p95"], unit=" ms")
    lists = figures.get("growth", {}).get(_GOAL_SIZE, {})
    for name, target in _LIST_GOALS.items():
        value = 1e3 * lists[name]["seconds"] if name in lists else None
        yield Goal(f"{name} at 100,000, wall time", 1e3 * target, value, unit=" ms")
    gateway = figures.get("idle", {}).get("gateway", {})
    share = 60 / (LEASE_SECONDS / 3)
    yield Goal("writes in a minute of an idle gateway", share, gateway.get("writing"))
    for count, held in figures.get("idle", {}).get("held", {}).items():
        yield Goal(f"writes in a minute, {int(count):,} conversations held", share, 60 * held["writing"])


def _length_goals(lengths: Figures) -> Iterator[Goal]:
    for kind, what in (("postgres", "PostgreSQL"), ("sqlite", "SQLite")):
        costs = lengths.get(kind, {})
        for key, name in (("written", "bytes written"), ("client_cpu", "CPU of the program")):
            has_both = {"10", "3000"} <= set(costs)
            ratio = costs["3000"][key] / costs["10"][key] if has_both else None
            yield Goal(f"{name} at 3,000 messages to 10, {what}", 1.5, ratio)


def _call_goals(calls: Figures) -> Iterator[Goal]:
    for width, target in _RATE_GOALS.items():
        yield Goal(f"calls/s to two bare commits, {width} at once", target, _of_bare(calls.get(width)), is_floor=True)
    wide = calls.get("32")
    yield Goal("CPU of recording a call, 32 at once", 1, None if wide is None else 1e3 * _cpu(wide), unit=" ms")
    yield Goal("calls/s to two bare commits, SQLite", 0.25, _of_bare(calls.get("sqlite")), is_floor=True)


def _of_bare(calls: Figures | None) -> float | None:
    """The rate by the ledger's own methods; in a conversation where these are not known."""
    return None if calls is None else (calls.get("direct") or calls["conversation"])["of_bare"]


def _cpu(calls: Figures) -> float:
    if "direct" in calls:
        return calls["direct"]["client_cpu"] + calls["direct"]["server_cpu"]
    conversation = calls["conversation"]
    return conversation["client_cpu"] - calls["loop"]["client_cpu"] + conversation["server_cpu"]


def tables(versions: Versions) -> list[Table]:
    """One table for each part that was measured, after one of the goals."""
    made = (goals_table(versions), *(make(versions) for make in (_turns, _lengths, _calls, _answers, _growth, _idle)))
    return [table for table in made if table.rows]


def goals_table(versions: Versions) -> Table:
    by_name = {label: {goal.name: goal for goal in goals(figures)} for label, figures in versions.items()}
    names = dict.fromkeys(name for each in by_name.values() for name in each)
    rows: list[list[str]] = []
    for name in names:
        found = [each.get(name) for each in by_name.values()]
        known = [goal for goal in found if goal is not None]
        if any(goal.value is not None for goal in known):
            rows.append([name, known[-1].words, *(goal.verdict if goal else "-" for goal in found)])
    return Table("Goals", _GOALS_ABOUT, ("cost", "goal", *versions), rows)


def _turns(versions: Versions) -> Table:
    rows = [
        [name, label, *(f"{figures['turns'][name][when][key]:.1f}" for when in ("new", "next") for key in _COUNTS)]
        for name in _names(versions, "turns")
        for label, figures in versions.items()
        if "turns" in figures
    ]
    about = (
        "Counted by the server: transactions, those of them that write, and statements without BEGIN and COMMIT; round "
        "trips by a relay before it. *new*: a conversation of one turn, opened and closed. *next*: one more turn in an "
        "open conversation. Approvals are given by the program."
    )
    columns = ("turn", "version", *(f"{when}: {words}" for when in ("new", "next") for words in _COUNTS.values()))
    return Table("What a turn sends to PostgreSQL", about, columns, rows, text_columns=2)


_COUNTS: Final = {
    "transactions": "transactions",
    "writing": "writing",
    "statements": "statements",
    "round_trips": "round trips",
}


def _lengths(versions: Versions) -> Table:
    rows = [
        [kind, f"{int(length):,}", label, *_length_cells(figures["length"][kind][length])]
        for kind in ("postgres", "sqlite")
        for length in _names(versions, "length", kind)
        for label, figures in versions.items()
        if length in figures.get("length", {}).get(kind, {})
    ]
    about = (
        "A turn with one effect in a conversation of so many messages, of forty words each; the smallest of the "
        "rounds. *written* is the server's log in PostgreSQL, and everything that the process writes to files in "
        "SQLite (log and checkpoints)."
    )
    columns = ("ledger", "messages", "version", "written, kB", "CPU program, ms", "CPU server, ms")
    return Table("A turn in a long conversation", about, columns, rows, text_columns=3)


def _length_cells(costs: Mapping[str, float]) -> list[str]:
    return [number(costs["written"] / 1e3), number(1e3 * costs["client_cpu"]), number(1e3 * costs["server_cpu"])]


_WAYS: Final = {
    "bare": "two bare INSERT and COMMIT",
    "direct": "a call, by the ledger's own methods",
    "conversation": "a call, in a conversation",
    "loop": "a call in a conversation without a ledger",
}


def _calls(versions: Versions) -> Table:
    rows: list[list[str]] = []
    for width in _names(versions, "calls"):
        for label, figures in versions.items():
            calls = figures.get("calls", {}).get(width, {})
            place = "SQLite, 1" if width == "sqlite" else f"PostgreSQL, {width}"
            for way, name in _WAYS.items():
                if way in calls:
                    rows.append([place, label, name, *_call_cells(calls[way])])
    about = (
        "Calls with a side effect. In a conversation each call is a round of its own, five rounds in a turn, with an "
        "approval that the program gives; by the ledger's own methods it is intent and outcome without approval. Bare: "
        "two rows for each call, each committed by itself, over as many connections as the ledger uses. *of bare* "
        "compares neighbours in time. Medians of the rounds. Where the disk makes a commit wait, that wait is most of "
        "both; where it does not, *of bare* compares the CPU of the two."
    )
    columns = ("ledger, at once", "version", "what", "calls/s", "of bare", "CPU program, ms", "CPU server, ms")
    return Table("Recording a call", about, columns, rows, text_columns=3)


def _call_cells(costs: Mapping[str, float]) -> list[str]:
    rates = [number(costs[key]) if key in costs else "" for key in ("rate", "of_bare")]
    return [*rates, *(number(1e3 * costs[key]) if key in costs else "" for key in ("client_cpu", "server_cpu"))]


def _answers(versions: Versions) -> Table:
    rows = [
        [
            *(width, label, number(one["answers/s"]), number(one["writing"]), number(one["statements"])),
            *(number(one["wal_bytes"] / 1e3), number(1e3 * one["client_cpu"]), number(1e3 * one["server_cpu"])),
            *(number(1e3 * one["p50"]), number(1e3 * one["p95"])),
        ]
        for width in _names(versions, "answers")
        for label, figures in versions.items()
        if (one := figures.get("answers", {}).get(width))
    ]
    about = (
        "`POST /v1/responses` with `store` and `stream`: 60 words, one every 20 ms, in 68 events; one gateway process. "
        "For each answer: transactions that write, statements, kB of the server's log, milliseconds of CPU of the "
        "gateway and of the server. *p50* and *p95*: milliseconds from the moment at which the engine writes a word to "
        "the moment at which the client reads it."
    )
    columns = ("at once", "version", "answers/s", "transactions", "statements", "log, kB", "CPU gateway", "CPU server")
    return Table("Kept answers", about, (*columns, "p50", "p95"), rows, text_columns=2)


def _growth(versions: Versions) -> Table:
    sizes = _names(versions, "growth")
    names = dict.fromkeys(
        name
        for figures in versions.values()
        for size in figures.get("growth", {}).values()
        for name in size
        if name != "bytes"
    )
    rows: list[list[str]] = []
    for name in names:
        for label, figures in versions.items():
            growth = figures.get("growth", {})
            cells = [number(1e3 * growth[size][name]["cpu"]) if size in growth else "-" for size in sizes]
            largest = growth.get(sizes[-1])
            rows.append([name, label, *cells, number(1e3 * largest[name]["seconds"]) if largest else "-"])
    for label, figures in versions.items():
        growth = figures.get("growth", {})
        if growth:
            cells = [number(growth[size]["bytes"] / 1e6) if size in growth else "-" for size in sizes]
            rows.append(["on disk, MB", label, *cells, ""])
    columns = ("cost", "version", *(f"{int(size):,}" for size in sizes), "wall")
    return Table("Lists among many conversations", _GROWTH_ABOUT, columns, rows, text_columns=2)


def _idle(versions: Versions) -> Table:
    rows: list[list[str]] = []
    for label, figures in versions.items():
        idle = figures.get("idle", {})
        if "gateway" in idle:
            one = idle["gateway"]
            rows.append(["a gateway without requests", label, number(one["writing"]), number(one["transactions"]), ""])
        for count, held in idle.get("held", {}).items():
            cpu = 60 * (held["client_cpu"] + held["server_cpu"])
            rows.append([f"{int(count):,} turns under way", label, number(60 * held["writing"]), "", number(cpu)])
    about = (
        f"In a minute: transactions that write, all transactions, and seconds of CPU of the program and the server. "
        f"Leases are of {LEASE_SECONDS:.0f} seconds. The turns wait for an engine that says nothing, "
        "and have done so for a whole lease: after a third of one, each is noted once."
    )
    return Table("Without work", about, ("what", "version", "writing", "all", "CPU"), rows, text_columns=2)


def _names(versions: Versions, part: str, *path: str) -> list[str]:
    """The keys of a part in all versions, in their order."""
    names: dict[str, None] = {}
    for figures in versions.values():
        inner = figures.get(part, {})
        for step in path:
            inner = inner.get(step, {})
        names |= dict.fromkeys(inner)
    return list(names)


def growth_picture(versions: Versions) -> str | None:
    """How the lists grow with the ledger; None if that was not measured."""
    sizes = _names(versions, "growth")
    names = [name for name in _names(versions, "growth", *sizes[:1]) if name != "bytes"]
    panels = [
        Panel(
            name,
            {
                label: [(float(size), 1e3 * costs[name]["cpu"]) for size, costs in figures["growth"].items()]
                for label, figures in versions.items()
                if "growth" in figures
            },
            1e3 * _LIST_GOALS[name] if name in _LIST_GOALS else None,
        )
        for name in names
    ]
    return (
        plot("The ledger among many conversations", "conversations", "Milliseconds of CPU", panels) if panels else None
    )


def length_picture(versions: Versions) -> str | None:
    """How a turn grows with its conversation; None if that was not measured."""
    wanted = (
        ("postgres", "written", "PostgreSQL: log, kB", 1e-3),
        ("postgres", "client_cpu", "PostgreSQL: CPU program, ms", 1e3),
        ("postgres", "server_cpu", "PostgreSQL: CPU server, ms", 1e3),
        ("sqlite", "written", "SQLite: written, kB", 1e-3),
        ("sqlite", "client_cpu", "SQLite: CPU program, ms", 1e3),
    )
    panels = [Panel(title, _length_lines(versions, kind, key, scale)) for kind, key, title, scale in wanted]
    panels = [panel for panel in panels if panel.lines]
    return plot("A turn in a long conversation", "messages", "Cost of a turn", panels) if panels else None


def _length_lines(versions: Versions, kind: str, key: str, scale: float) -> dict[str, Sequence[tuple[float, float]]]:
    return {
        label: [(float(length), scale * costs[key]) for length, costs in figures["length"][kind].items()]
        for label, figures in versions.items()
        if figures.get("length", {}).get(kind)
    }
