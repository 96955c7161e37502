"""Questions about a database. The model writes SQL; the connection cannot write, and a query cannot run for long.

SQLite itself enforces that, not the prompt: the file is opened read-only, an authorizer allows nothing but reading the
tables that the program names, and a query ends after a fixed amount of work.
"""

from __future__ import annotations

import sqlite3
import tempfile
from dataclasses import dataclass
from pathlib import Path

from engine_option import engine_of, options

from ferrule import ToolError, tool

# SmolLM2, which the other examples use, writes no SQL. This model is downloaded once (490 MB).
ENGINE = "hf:Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF"
SCHEMA = """
CREATE TABLE orders (id INTEGER, customer TEXT, city TEXT, total REAL);
CREATE TABLE passwords (customer TEXT, password TEXT);
"""
ORDERS = [(1, "Ann", "Paris", 12.5), (2, "Bob", "Rome", 80.0), (3, "Ann", "Oslo", 7.5), (4, "Cid", "Rome", 20.0)]
READABLE = {"orders"}
MAX_ROWS = 20
MAX_STEPS = 1_000_000


@dataclass(frozen=True, slots=True)
class Answer:
    """A weak model answers better if the answer has a form."""

    answer: str


def make_database(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.executescript(SCHEMA)
        connection.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", ORDERS)
        connection.execute("INSERT INTO passwords VALUES ('Ann', 'hunter2')")


def open_read_only(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, check_same_thread=False)

    def allow(action: int, table: str | None, *_: str | None) -> int:
        if action == sqlite3.SQLITE_READ:
            return sqlite3.SQLITE_OK if table in READABLE else sqlite3.SQLITE_DENY
        reads = action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_FUNCTION)
        return sqlite3.SQLITE_OK if reads else sqlite3.SQLITE_DENY

    connection.set_authorizer(allow)
    return connection


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("question", nargs="?", default="Which customer has the largest sum of totals?")
    parser.set_defaults(engine=ENGINE)
    args = parser.parse_args()
    path = Path(tempfile.mkdtemp()) / "shop.db"
    make_database(path)
    connection = open_read_only(path)

    @tool
    def query(sql: str) -> list[tuple[object, ...]]:
        """Runs one SELECT statement of SQLite on the table orders (id, customer, city, total)."""
        connection.set_progress_handler(lambda: True, MAX_STEPS)
        try:
            rows = connection.execute(sql).fetchmany(MAX_ROWS)
        except sqlite3.Error as error:
            # The model reads this message and can correct its statement.
            raise ToolError(f"{error}") from error
        print(f"query: {sql}\n  {rows}")
        return rows

    print(f"you: {args.question}")
    with engine_of(args) as engine:
        turn = engine.run_sync(
            args.question,
            tools=[query],
            response_type=Answer,
            tool_choice_policy="required_first_hop",
            parallel_tool_calls=False,
            max_iterations=2,
            max_tokens=200,
            temperature=0.0,
        )
    print(f"model: {turn.value.answer}")
    # What a model cannot do, whatever it writes:
    for statement in ("DELETE FROM orders", "SELECT * FROM passwords", "ATTACH '/tmp/other.db' AS other"):
        try:
            connection.execute(statement)
        except sqlite3.Error as error:
            print(f"refused: {statement}: {error}")


if __name__ == "__main__":
    main()
