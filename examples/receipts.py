"""Receipts: how each call was guaranteed, keyword by keyword of its schema.

What the engine's grammar can say is enforced while the model writes; the rest is checked after, and a call that fails
there is shown here as one that was not handed on.
"""

from __future__ import annotations

from engine_option import engine_of, options

from ferrule import ChatMessage, ToolCallRequest, ToolChoice, ToolDefinition

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
            # That no two are equal is more than the grammars of today's engines can say.
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
    for question, meant in QUESTIONS.items():
        print(f"\nyou: {question}")
        asked = ToolCallRequest(
            messages=(ChatMessage.user(question),),
            tools=(meant,),
            tool_choice=ToolChoice.required(),
            parallel_tool_calls=False,
            max_tokens=100,
            temperature=0.0,
        )
        reply = engine.generate(asked)
        for call in (*reply.calls, *reply.incomplete):
            print(f"{'calls' if call.complete else 'not handed on'}: {call.name} {call.function.arguments}")
            receipt = call.receipt
            if receipt is not None:
                print(f"  {receipt.how} by {receipt.engine} ({receipt.path}), format {receipt.format or 'its own'}")
                print(f"  enforced while writing: {', '.join(receipt.enforced) or 'nothing'}")
                print(f"  checked after: {', '.join(receipt.checked) or 'nothing'}")
                print(f"  checked by nobody: {', '.join(receipt.unchecked) or 'nothing'}")
        for diagnostic in reply.diagnostics:
            print(f"  odd: {diagnostic.message}")


if __name__ == "__main__":
    main()
