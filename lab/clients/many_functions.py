"""Very many tools of an office, and the question for which one of them is right.

Imported by the judging process and by the client workers, so it imports nothing of either.
"""

from typing import Any, Final

QUESTION: Final = "Book the meeting room for invoice reviews in Lisbon."
WANTED: Final = "book_invoice_lisbon"
RESULT: Final = "Booked."
_VERBS: Final = ("book", "list", "cancel", "share", "export", "approve", "rename", "archive", "price", "print")
_OBJECTS: Final = (
    *("invoice", "ticket", "contract", "room", "vehicle", "lunch", "parcel", "badge", "course", "survey"),
    *("laptop", "desk", "visa", "flight", "hotel", "phone", "budget", "report", "shift", "key"),
)
_CITIES: Final = ("lisbon", "oslo", "rome", "paris", "vienna", "berlin", "madrid", "dublin", "athens", "prague")


def names(count: int) -> list[str]:
    """The first names of 2,000; the wanted one is among them from 1 on."""
    every = [f"{verb}_{noun}_{city}" for noun in _OBJECTS for city in _CITIES for verb in _VERBS]
    return every[:count]


def functions_about(noun: str, count: int) -> list[dict[str, Any]]:
    """The first functions about a thing, with `name`, `description` and `parameters`."""
    own = [name for name in names(2_000) if f"_{noun}_" in name]
    return [{"name": name, "description": _description(name), "parameters": _parameters()} for name in own[:count]]


def _parameters() -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "subject": {"type": "string", "description": "What it is about, in a few words."},
            "day": {"type": "string", "description": "The day, as 2026-11-19."},
            "people": {"type": "integer", "minimum": 1, "maximum": 500, "description": "For how many people it is."},
        },
        "required": ["subject"],
        "additionalProperties": False,
    }


def _description(name: str) -> str:
    verb, noun, city = name.split("_")
    return f"{verb.capitalize()} a {noun} of the office in {city.capitalize()}, and return what was changed."


def _function(name: str, **more: Any) -> dict[str, Any]:
    about = {"name": name, "description": _description(name), "parameters": _parameters()}
    return {"type": "function", **about, "strict": False, **more}


def namespaced_functions(count: int) -> list[dict[str, Any]]:
    """Namespaces by what the functions are about, in OpenAI's Responses API, all of them deferred."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for name in names(count):
        groups.setdefault(name.split("_")[1], []).append(_function(name, defer_loading=True))
    about = "All that the offices do with a {}."
    return [
        {"type": "namespace", "name": noun, "description": about.format(noun), "tools": tools}
        for noun, tools in groups.items()
    ]


def flat_functions(count: int) -> list[dict[str, Any]]:
    """Functions of OpenAI's chat API."""
    return [
        {"type": "function", "function": {k: v for k, v in _function(name).items() if k not in ("type", "strict")}}
        for name in names(count)
    ]


def message_tools(count: int) -> list[dict[str, Any]]:
    """Tools of Anthropic's API, all of them deferred."""
    return [
        {"name": name, "description": _description(name), "input_schema": _parameters(), "defer_loading": True}
        for name in names(count)
    ]
