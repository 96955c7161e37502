"""What an answer says that waits for approval, for clients that read only text."""

from __future__ import annotations

from collections.abc import Iterable

from ferrule.run.events import ConfirmationRequired


def waiting_text(pending: Iterable[ConfirmationRequired], *, after_text: bool) -> str:
    names = ", ".join(f"{one.call.name} ({one.approval})" for one in pending)
    text = f"[Waiting for approval of {names}.]"
    return f"\n{text}" if after_text else text
