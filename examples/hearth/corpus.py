"""Full-text search over folders of Markdown, with an SQLite index in memory that follows changes of the files."""

from __future__ import annotations

import os
import re
import sqlite3
import threading
from pathlib import Path
from typing import Any

from ferrule import tool

FOLDER = "HEARTH_CORPORA"
_HEADING = re.compile(r"^#{1,6} +(.+)$", re.MULTILINE)
_lock = threading.Lock()
_index: dict[tuple[Any, ...], sqlite3.Connection] = {}


@tool(bound_to=("rag.query", "1.0"))
def search_corpus(query: str, corpus: str = "", limit: int = 5) -> list[dict[str, str]]:
    """Searches documents by words and gives the passages that fit best, with where they stand.

    Args:
        query: words to look for
        corpus: which collection; left out, all of them
        limit: how many passages at most
    """
    words = re.findall(r"\w+", query)
    if not words:
        return []
    # Each word in quotes, so that nothing a model writes is interpreted as query syntax.
    match = " OR ".join(f'"{word}"' for word in words)
    with _lock:
        rows = _current_index().execute(
            "select corpus, file, heading, text from passages where passages match ? and (? = '' or corpus = ?) "
            "order by rank limit ?",
            (match, corpus, corpus, min(max(limit, 1), 20)),
        )
        return [dict(zip(("corpus", "file", "heading", "text"), row, strict=True)) for row in rows]


@tool(bound_to=("rag.list_corpora", "1.0"))
def list_corpora() -> list[dict[str, Any]]:
    """Lists the collections of documents that can be searched."""
    folders = sorted(path for path in _folder().iterdir() if path.is_dir())
    return [{"corpus": path.name, "files": sorted(file.name for file in path.glob("*.md"))} for path in folders]


def _folder() -> Path:
    return Path(os.environ.get(FOLDER) or Path(__file__).parent / "corpora")


def _current_index() -> sqlite3.Connection:
    """The index of the files, rebuilt when one of them has changed."""
    files = sorted(_folder().glob("*/*.md"))
    state = tuple((str(file), file.stat().st_mtime_ns) for file in files)
    if state not in _index:
        for old in _index.values():
            old.close()
        _index.clear()
        _index[state] = _build_index(files)
    return _index[state]


def _build_index(files: list[Path]) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:", check_same_thread=False)
    database.execute("create virtual table passages using fts5(corpus unindexed, file unindexed, heading, text)")
    for file in files:
        parts = _HEADING.split(file.read_text(encoding="utf-8"))
        pairs = zip(["", *parts[1::2]], parts[::2], strict=True)
        rows = [(file.parent.name, file.name, heading, text.strip()) for heading, text in pairs if text.strip()]
        database.executemany("insert into passages values (?, ?, ?, ?)", rows)
    return database
