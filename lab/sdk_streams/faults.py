"""The tool of the SDK runs, and the arguments of a good call. Imported in every client's interpreter."""

from typing import Any, Final

TOOL: Final = "pay"
SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "to": {"type": "string"},
        "amount": {"type": "integer"},
        "reasons": {"type": "array", "items": {"type": "string"}},
        "note": {"type": "string"},
    },
    "required": ["to", "amount"],
    "additionalProperties": False,
}
ARGUMENTS: Final[dict[str, Any]] = {
    "to": "bob@example.com",
    "amount": 10_000,
    "reasons": [f"invoice {number} of the garden, with flowers, trees and a small pond" for number in range(8)],
    "note": 'He said: "by Friday", and added a path: C:\\garden\\plan.txt\nThank you for the long and detailed list. '
    * 2,
}
