"""Receipts: how each call was guaranteed, for every keyword of its schema.

The engine's grammar enforces what it can express while the model writes. The rest is checked afterwards, and a call
that fails this check is printed here as rejected.
"""

from __future__ import annotations

from engine_option import engine_of, options

from ferrule import ToolDefinition

BOOK = ToolDefinition(
    "book_table",
    "Books a table in a restaurant.",
    {
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 20},
            "guests": {"type": "integer", "minimum": 1, "maximum": 12},
            "time": {"type": "string", "pattern": "^(1[89]|2[0-2]):(00|30)$"},
        },
        "required": ["city", "guests", "time"],
        "additionalProperties": False,
    },
)
TAG = ToolDefinition(
    "tag_photo",
    "Gives a photo two different tags.",
    {
        "type": "object",
        "properties": {
            # Today's engines cannot express uniqueItems in a grammar.
            "tags": {
                "type": "array",
                "items": {"enum": ["sea", "hill"]},
                "minItems": 2,
                "maxItems": 2,
                "uniqueItems": True,
            }
        },
        "required": ["tags"],
        "additionalProperties": False,
    },
)
QUESTIONS = {
    "Book a table in Rome for 4 guests at 19:30.": BOOK,
    "Tag the photo with sea and hill.": TAG,
}


def main() -> None:
    engine = engine_of(options(__doc__).parse_args())
    for question, expected in QUESTIONS.items():
        print(f"\nyou: {question}")
        reply = engine.ask_sync(
            question,
            tools=[expected],
            tool_choice="required",
            parallel_tool_calls=False,
            max_tokens=100,
            temperature=0.0,
        )
        for call in (*reply.calls, *reply.incomplete):
            print(f"{'calls' if call.complete else 'rejected'}: {call.name} {call.function.arguments}")
            receipt = call.receipt
            if receipt is not None:
                print(f"  {receipt.how} by {receipt.engine} ({receipt.path}), format {receipt.format or 'its own'}")
                print(f"  enforced while decoding: {', '.join(receipt.enforced) or 'nothing'}")
                print(f"  checked afterwards: {', '.join(receipt.checked) or 'nothing'}")
                print(f"  not checked: {', '.join(receipt.unchecked) or 'nothing'}")
        for diagnostic in reply.diagnostics:
            print(f"  diagnostic: {diagnostic.message}")


if __name__ == "__main__":
    main()
