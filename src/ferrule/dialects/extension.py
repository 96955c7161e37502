"""Extension: data that the APIs have no field for (receipts, incomplete calls, diagnostics), under one key.

Clients that do not know the key ignore it. Reading never raises, because the sender is not trusted: a receipt that was
read is a claim of the sender.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from ferrule.core.call import FunctionCall, How, Receipt, ToolCall
from ferrule.core.event import Diagnostic
from ferrule.core.reply import Reply
from ferrule.dialects.lenient_json import entries, mapping

KEY = "ferrule"

# The accepted types of a receipt's fields when it comes from outside. `how` is checked against its enumeration.
_RECEIPT_KINDS: Mapping[str, tuple[type, ...]] = {
    "engine": (str,),
    "path": (str,),
    "format": (str,),
    "rule": (str,),
    "seconds": (int, float),
    "tokens": (int,),
    "skipped": (int,),
    "drifted": (str,),
}
_STRING_LISTS = ("enforced", "checked", "unchecked", "notes")


@dataclass(frozen=True, slots=True)
class Extension:
    """Receipts and incomplete calls by call id.

    Only here are the arguments of an incomplete call sent in full; a client must not mistake it for a call to run.
    """

    receipts: Mapping[str, Receipt] = field(default_factory=dict[str, Receipt])
    incomplete: Mapping[str, FunctionCall] = field(default_factory=dict[str, FunctionCall])
    diagnostics: tuple[Diagnostic, ...] = ()

    def as_field(self) -> dict[str, Any]:
        """Return the field to merge into a chunk or a body; empty if there is no data."""
        fields: dict[str, Any] = {
            "receipts": {id: receipt.as_dict() for id, receipt in self.receipts.items()},
            "incomplete": {id: asdict(function) for id, function in self.incomplete.items()},
            "diagnostics": [asdict(diagnostic) for diagnostic in self.diagnostics],
        }
        nonempty = {key: value for key, value in fields.items() if value}
        return {KEY: nonempty} if nonempty else {}

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
        """Read the parts of the extension that are valid."""
        data = mapping(body.get(KEY))
        if not data:
            return _NOTHING
        receipts = {id: receipt_from(mapping(value)) for id, value in mapping(data.get("receipts")).items()}
        calls = {id: _function(mapping(value)) for id, value in mapping(data.get("incomplete")).items()}
        notes = [_diagnostic(entry) for entry in entries(data.get("diagnostics"))]
        return Extension(
            {id: receipt for id, receipt in receipts.items() if receipt},
            {id: function for id, function in calls.items() if function},
            tuple(note for note in notes if note),
        )


_NOTHING = Extension()


def receipt_from(data: Mapping[str, Any]) -> Receipt | None:
    """Read a receipt from its dict; None if it is invalid."""
    how = next((how for how in How if how == data.get("how")), None)
    if how is None or not isinstance(data.get("engine"), str) or not isinstance(data.get("path"), str):
        return None
    values = {
        name: data[name] for name, kinds in _RECEIPT_KINDS.items() if name in data and isinstance(data[name], kinds)
    }
    lists: dict[str, Any] = {name: _strings(data.get(name)) for name in _STRING_LISTS}
    return Receipt(how=how, **values, **lists)


def _strings(value: object) -> tuple[str, ...]:
    items = cast("list[object]", value) if isinstance(value, list | tuple) else []
    return tuple(item for item in items if isinstance(item, str))


def _function(data: Mapping[str, Any]) -> FunctionCall | None:
    name, arguments = data.get("name"), data.get("arguments")
    return FunctionCall(name, arguments) if isinstance(name, str) and isinstance(arguments, str) else None


def _diagnostic(data: Mapping[str, Any]) -> Diagnostic | None:
    texts = {name: data.get(name, "") for name in ("code", "message", "text")}
    index = data.get("index")
    if not all(isinstance(text, str) for text in texts.values()) or not (index is None or isinstance(index, int)):
        return None
    return Diagnostic(**texts, index=index)
