"""Extension: what the APIs have no field for (receipts, calls that are not handed on, diagnostics), under one key.

Clients that do not know the key pass over it. Reading never raises: whoever sent it may be anybody, and a receipt that
was read is what the sender claims, no more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from ferrule.core.call import FunctionCall, ToolCall
from ferrule.core.event import Diagnostic
from ferrule.core.receipt import How, Receipt
from ferrule.core.reply import Reply
from ferrule.dialects.lenient_json import entries, mapping

KEY = "ferrule"

# How each field of a receipt is checked when it comes from outside; `how` is checked by its enumeration.
_RECEIPT_KINDS: Mapping[str, tuple[type, ...]] = {
    "engine": (str,),
    "path": (str,),
    "format": (str,),
    "rule": (str,),
    "seconds": (int, float),
    "tokens": (int,),
    "skipped": (int,),
}
_WORD_LISTS = ("enforced", "checked", "unchecked", "notes")


@dataclass(frozen=True, slots=True)
class Extension:
    """Receipts and incomplete calls by call id. An incomplete call is here whole and elsewhere never whole."""

    receipts: Mapping[str, Receipt] = field(default_factory=dict[str, Receipt])
    incomplete: Mapping[str, FunctionCall] = field(default_factory=dict[str, FunctionCall])
    diagnostics: tuple[Diagnostic, ...] = ()

    def as_field(self) -> dict[str, Any]:
        """To be merged into a chunk or a body; empty where there is nothing to tell."""
        told: dict[str, Any] = {
            "receipts": {id: receipt.as_dict() for id, receipt in self.receipts.items()},
            "incomplete": {id: asdict(function) for id, function in self.incomplete.items()},
            "diagnostics": [asdict(diagnostic) for diagnostic in self.diagnostics],
        }
        kept = {key: value for key, value in told.items() if value}
        return {KEY: kept} if kept else {}

    @staticmethod
    def of(reply: Reply) -> Extension:
        calls = [part for part in reply.parts if isinstance(part, ToolCall)]
        return Extension(
            {call.id: call.receipt for call in calls if call.receipt},
            {call.id: call.function for call in calls if not call.complete},
            reply.diagnostics,
        )

    @staticmethod
    def read(body: Mapping[str, Any]) -> Extension:
        """What of the extension can be understood."""
        told = mapping(body.get(KEY))
        if not told:
            return _NOTHING
        receipts = {id: receipt_from(mapping(value)) for id, value in mapping(told.get("receipts")).items()}
        calls = {id: _function(mapping(value)) for id, value in mapping(told.get("incomplete")).items()}
        notes = [_diagnostic(entry) for entry in entries(told.get("diagnostics"))]
        return Extension(
            {id: receipt for id, receipt in receipts.items() if receipt},
            {id: function for id, function in calls.items() if function},
            tuple(note for note in notes if note),
        )


_NOTHING = Extension()


def receipt_from(told: Mapping[str, Any]) -> Receipt | None:
    """A receipt from its dict; None when it is not one."""
    how = next((how for how in How if how == told.get("how")), None)
    if how is None or not isinstance(told.get("engine"), str) or not isinstance(told.get("path"), str):
        return None
    known = {
        name: told[name] for name, kinds in _RECEIPT_KINDS.items() if name in told and isinstance(told[name], kinds)
    }
    lists: dict[str, Any] = {name: _words(told.get(name)) for name in _WORD_LISTS}
    return Receipt(how=how, **known, **lists)


def _words(value: object) -> tuple[str, ...]:
    held = cast("list[object]", value) if isinstance(value, list | tuple) else []
    return tuple(word for word in held if isinstance(word, str))


def _function(told: Mapping[str, Any]) -> FunctionCall | None:
    name, arguments = told.get("name"), told.get("arguments")
    return FunctionCall(name, arguments) if isinstance(name, str) and isinstance(arguments, str) else None


def _diagnostic(told: Mapping[str, Any]) -> Diagnostic | None:
    texts = {name: told.get(name, "") for name in ("code", "message", "text")}
    index = told.get("index")
    if not all(isinstance(text, str) for text in texts.values()) or not (index is None or isinstance(index, int)):
        return None
    return Diagnostic(**texts, index=index)
