"""The task of every client against the gateway: two tools, one question, and the tools' answers.

Imported by the judging process and by the client workers, so it imports nothing itself.
"""

from typing import Any, Final

QUESTION: Final = "Book a table in Paris for two on the terrace, and tell me the weather there."
INSTRUCTIONS: Final = "You use tools."
TEMPERATURE: Final = 0.8
"""High enough that so small a model violates every schema unless it is constrained."""
MAX_TOKENS: Final = 160
MOST_TURNS: Final = 3
FIRST_HOP: Final = {"tool_choice_policy": "required_first_hop"}
"""The gateway's extension of the request body: a call is required first, then the model decides."""

BOOK: Final = "book_table"
WEATHER: Final = "get_weather"
ABOUT: Final = {BOOK: "Books a table.", WEATHER: "The weather of a city."}
SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    BOOK: {
        "type": "object",
        "properties": {
            "city": {"type": "string", "minLength": 2, "maxLength": 20},
            "guests": {"type": "integer", "minimum": 1, "maximum": 12},
            "seat": {"enum": ["inside", "terrace"]},
        },
        "required": ["city", "guests", "seat"],
        "additionalProperties": False,
    },
    WEATHER: {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}, "unit": {"enum": ["celsius", "fahrenheit"]}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
ANSWERS: Final = {BOOK: "Booked.", WEATHER: "Sunny, 21 degrees."}


def chat_tools() -> list[dict[str, Any]]:
    """The tools in the form of OpenAI's chat API."""
    return [{"type": "function", "function": _with_name(name, "parameters")} for name in SCHEMAS]


def response_tools() -> list[dict[str, Any]]:
    return [{"type": "function", "strict": False, **_with_name(name, "parameters")} for name in SCHEMAS]


def message_tools() -> list[dict[str, Any]]:
    return [_with_name(name, "input_schema") for name in SCHEMAS]


def _with_name(name: str, key: str) -> dict[str, Any]:
    return {"name": name, "description": ABOUT[name], key: SCHEMAS[name]}
