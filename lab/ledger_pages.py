"""Measure lists, searches and sweeps of a ledger with up to a million conversations: `scripts/long ledger-pages`.

For each size a database is filled by SQL with the tables of the checkout before, if one is given, and measured with its
code. Then this checkout opens it, builds the indexes that it lacks, and is measured on the same rows.
"""

import argparse
import asyncio
import json
import os
import shutil
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg
from rich.console import Console

from ferrule.bench.tables import Table, markdown, print_table
from lab.environment import describe_environment, measured_environment
from lab.growth_plot import Panel, plot
from lab.ledger_content import OPENING, PAGES, TURN
from lab.ledger_filler import fill_quickly
from lab.ledger_growth import worker_of
from lab.ledger_server import postgres_server
from lab.ledger_tables import number
from lab.paths import CACHE, ROOT
from lab.results_page import PAGE, publish
from lab.workers import Worker

_SIZES: Final = (1_000, 10_000, 100_000, 1_000_000)
_KEPT: Final = CACHE / "results" / "ledger-pages.json"
_SECTION, _PICTURE = "ledger-pages", "ledger-pages"
_COMMAND: Final = "```sh\nscripts/long ledger-pages --before ../before\n```"
_ABOUT: Final = (
    "Milliseconds of wall time, the smallest of several rounds, in a ledger of so many conversations of one tenant. "
    "Each has four messages, an approval, a stored response and a continuation, and half have a trace; one approval in "
    "ten is pending, one response and one continuation in a hundred is under way, whose process lives. A page has "
    "fifty rows. A frequent word is in every conversation, a rare one in one of 997, a Chinese one in one of fifty. "
    "*before* is the checkout before, on the same rows, without the indexes."
)
_GOALS: Final = {"sweep": 5.0, "page": 20.0, "search": 100.0}
_ROUNDS: Final = 8
_LONG_SECONDS: Final = 0.3
"""What takes longer is measured twice only."""
_INDEXES: Final = ("ferrule_message_words", "ferrule_traced_request_words")
_BUILT: Final = "indexes built, s"
_SIZE: Final = "on disk, MB"
Figures = dict[str, dict[str, dict[str, float]]]


def measure(worker: Worker, address: str) -> dict[str, float]:
    """Milliseconds of each list, of opening a conversation, and of a turn in it."""
    figures: dict[str, float] = {}
    for name in PAGES:
        request = {"measure": "list", "list": name, "address": address}
        smallest = worker.ask({**request, "times": 2})["smallest"]
        if smallest < _LONG_SECONDS:
            smallest = min(smallest, worker.ask({**request, "times": _ROUNDS})["smallest"])
        figures[name] = 1e3 * smallest
    for name, has_turn in ((OPENING, False), (TURN, True)):
        request = {"measure": "old_conversations", "with_turn": has_turn, "times": _ROUNDS, "address": address}
        figures[name] = 1e3 * worker.ask(request)["smallest"]
    return figures


def run_postgres(sizes: Sequence[int], before: Path | None, folder: Path, console: Console) -> Figures:
    figures: Figures = {"before": {}, "after": {}}
    with postgres_server(folder / "data") as server:
        for size in sizes:
            address = server.create("pages")
            server.set_memory("pages", "512MB")
            _fill(address, before or ROOT, size)
            server.analyze("pages")
            server.checkpoint()
            console.print(f"{size:,}: filled", markup=False, highlight=False)
            if before is not None:
                with worker_of(before) as worker:
                    figures["before"][str(size)] = {
                        **measure(worker, address),
                        _SIZE: server.size("pages") / 1e6,
                    }
                server.wait_until_unused("pages")
            started = time.perf_counter()
            asyncio.run(_build_indexes(address))
            built = time.perf_counter() - started
            server.analyze("pages")
            server.checkpoint()
            with worker_of(ROOT) as worker:
                figures["after"][str(size)] = {
                    **measure(worker, address),
                    _BUILT: built,
                    _SIZE: server.size("pages") / 1e6,
                }
            server.wait_until_unused("pages")
            _report(console, figures, size)
    return figures


def run_sqlite(sizes: Sequence[int], before: Path | None, folder: Path, console: Console) -> Figures:
    figures: Figures = {"before": {}, "after": {}}
    for size in sizes:
        path = folder / f"pages-{size}.db"
        _fill(str(path), before or ROOT, size)
        console.print(f"{size:,}: filled", markup=False, highlight=False)
        if before is not None:
            with worker_of(before) as worker:
                figures["before"][str(size)] = {**measure(worker, str(path)), _SIZE: path.stat().st_size / 1e6}
        started = time.perf_counter()
        asyncio.run(_build_indexes(str(path)))
        built = time.perf_counter() - started
        with worker_of(ROOT) as worker:
            figures["after"][str(size)] = {
                **measure(worker, str(path)),
                _BUILT: built,
                _SIZE: path.stat().st_size / 1e6,
            }
        path.unlink()
        _report(console, figures, size)
    return figures


def _fill(address: str, checkout: Path, size: int) -> None:
    """Fill a database that the checkout has made, and in which it has written one conversation."""
    model = "model-0"
    with worker_of(checkout) as worker:
        worker.ask({"measure": "model", "address": address, "id": model})
        worker.ask({"measure": "close", "address": address})
    if address.startswith("postgresql:"):
        # To build an index at the end takes less time than to fill it, and shows how long a ledger waits for it.
        with psycopg.connect(address, autocommit=True) as connection:
            for index in _INDEXES:
                connection.execute(f"DROP INDEX IF EXISTS {index}".encode())
    fill_quickly(address, model, 1, size + 1)


async def _build_indexes(address: str) -> None:
    """Open the ledger and wait until it has all its indexes."""
    import ferrule.ledger

    async with ferrule.ledger.open(address) as ledger:
        search: Any = ledger
        while await search._search_words("a") is None:
            await asyncio.sleep(0.02)


def _report(console: Console, figures: Figures, size: int) -> None:
    for label, by_size in figures.items():
        for name, value in by_size.get(str(size), {}).items():
            console.print(f"  {label:6} {size:>9,} {name:32} {value:,.2f}", markup=False, highlight=False)


def table_of(database: str, figures: Figures) -> Table:
    sizes = sorted({size for by_size in figures.values() for size in by_size}, key=int)
    names = list(dict.fromkeys(name for by_size in figures.values() for costs in by_size.values() for name in costs))
    rows: list[list[str]] = []
    for name in names:
        for label, by_size in figures.items():
            cells = [number(by_size[size][name]) if name in by_size.get(size, {}) else "-" for size in sizes]
            if any(cell != "-" for cell in cells):
                goal = next((f"{at:g}" for kind, at in _GOALS.items() if name.startswith((kind, f"last {kind}"))), "")
                rows.append([name, label, goal, *cells])
    columns = ("list", "version", "goal at 100,000", *(f"{int(size):,}" for size in sizes))
    return Table(f"Lists of a ledger in {database}", _ABOUT, columns, rows, text_columns=2)


def _count(item: tuple[str, object]) -> int:
    return int(item[0])


def picture_of(figures: Figures) -> str:
    names = [name for name in (*PAGES, TURN) if any(name in costs for costs in figures["after"].values())]
    panels = [
        Panel(
            name,
            {
                label: [
                    (float(size), costs[name]) for size, costs in sorted(by_size.items(), key=_count) if name in costs
                ]
                for label, by_size in figures.items()
                if by_size
            },
            next((at for kind, at in _GOALS.items() if name.startswith(kind)), None),
        )
        for name in names
    ]
    return plot("Lists by size", "conversations in the ledger", "milliseconds", panels)


def main(arguments: Sequence[str] | None = None) -> None:
    reader = argparse.ArgumentParser(prog="scripts/long ledger-pages", description=(__doc__ or "").partition("\n")[0])
    reader.add_argument("--before", type=Path, help="another checkout, measured on the same rows")
    reader.add_argument("--size", type=int, action="append", help="conversations in the ledger; may be repeated")
    reader.add_argument("--database", choices=("postgres", "sqlite"), action="append", help="only this one")
    reader.add_argument("--page", action="store_true", help="measure nothing: write the page from the figures kept")
    reader.add_argument("--print", action="store_true", help="publish nothing")
    options = reader.parse_args(arguments)
    console = Console(width=None if Console().is_terminal else 170)
    kept: dict[str, Any] = json.loads(_KEPT.read_text(encoding="utf-8")) if _KEPT.exists() else {}
    runs = {"postgres": run_postgres, "sqlite": run_sqlite}
    for name in () if options.page else options.database or runs:
        with _folder() as folder:
            figures = runs[name](sorted(options.size or _SIZES), options.before, folder, console)
        kept["environment"] = describe_environment(measured_environment())
        kept["load"] = os.getloadavg()[1]
        old: Figures = kept.get(name, {"before": {}, "after": {}})
        kept[name] = {label: {**old[label], **by_size} for label, by_size in figures.items()}
        _KEPT.parent.mkdir(parents=True, exist_ok=True)
        _KEPT.write_text(json.dumps(kept, indent=1), encoding="utf-8")
    shown = {"postgres": "PostgreSQL", "sqlite": "SQLite"}
    tables = [table_of(shown[name], kept[name]) for name in shown if name in kept]
    for table in tables:
        print_table(table, console)
    if tables and not options.print:
        _publish(kept, tables)


def _publish(kept: dict[str, Any], tables: Sequence[Table]) -> None:
    parts = [_COMMAND, f"{kept['environment']} Load average {kept['load']:.1f}."]
    if kept.get("note"):
        parts.append(kept["note"])
    parts += map(markdown, tables)
    if "postgres" in kept:
        image = PAGE.parent / "images" / f"{_PICTURE}.svg"
        image.write_text(picture_of(kept["postgres"]), encoding="utf-8")
        parts.append(
            f"![Milliseconds of lists, searches and a turn, by the number of conversations](images/{_PICTURE}.svg)"
        )
    publish(_SECTION, "Lists and searches of a large ledger", parts)


@contextmanager
def _folder() -> Generator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="ledger-pages-", dir=CACHE))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
