"""A notice board in SQLite. Posting needs approval, and the call's id prevents posting twice."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

from ferrule import CallContext, tool

PLACE = "HEARTH_MARKET"


@tool(side_effects=True, bound_to=("market.post", "1.0"))
def post_to_market(title: str, kind: Literal["offer", "wanted"], context: CallContext) -> dict[str, Any]:
    """Posts a notice on the neighbours' board.

    Args:
        title: what is offered or wanted, in one line
        kind: whether it is an offer or something wanted
    """
    who = context.principal
    key = json.dumps([who.tenant, who.name, context.conversation, context.call_id, kind, title])
    with closing(_opened()) as board, board:
        board.execute(
            "insert into notices (key, who, kind, title) values (?, ?, ?, ?) on conflict (key) do nothing",
            (key, who.name, kind, title),
        )
        (number,) = board.execute("select number from notices where key = ?", (key,)).fetchone()
    return {"posted": number, "kind": kind, "title": title}


@tool(bound_to=("market.list", "1.0"))
def list_marketplace(about: str = "") -> list[dict[str, Any]]:
    """Lists what neighbours offer and look for.

    Args:
        about: a word that must occur
    """
    with closing(_opened()) as board:
        rows = board.execute("select number, who, kind, title from notices order by number").fetchall()
    listed: list[dict[str, Any]] = [dict(zip(("number", "who", "kind", "title"), row, strict=True)) for row in rows]
    return [notice for notice in listed if about.casefold() in notice["title"].casefold()]


def _opened() -> sqlite3.Connection:
    board = sqlite3.connect(Path(os.environ.get(PLACE) or "market.db"), timeout=5)
    board.execute(
        "create table if not exists notices "
        "(number integer primary key, key text unique, who text, kind text, title text)"
    )
    return board
