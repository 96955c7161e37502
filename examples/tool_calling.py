"""Tool calling, step by step: the model calls a tool, you run the call, and the model reads the result.

There are three tools: weather, calculator and search. The loop is written out here; in `many_turns.py` Ferrule runs it.
"""

from __future__ import annotations

import ast
import asyncio
import operator
from collections.abc import Callable

from engine_option import engine_of, options

from ferrule import ChatMessage, Engine, Role, ToolError, ToolExecutor, tool
from ferrule.sources import Functions

WEATHER = {"Paris": "sunny, 24 degrees", "Rome": "showers, 21 degrees", "Oslo": "snow, 2 degrees"}
NOTES = ("The spare key hangs in the garage.", "The boiler wants 1.5 bar.", "The garage is locked at ten.")
OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


# The model sees the name and the docstring. The annotations become the schema that the call must match.
@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    if city not in WEATHER:
        # The model sees the message of a ToolError; for any other exception it sees only the type.
        raise ToolError(f"nothing is known of {city!r}; known: {', '.join(WEATHER)}")
    return WEATHER[city]


@tool
def calculate(expression: str) -> float:
    """Works out an arithmetic expression."""

    def value(node: ast.expr) -> float:
        match node:
            case ast.Constant(value=int() | float() as number):
                return number
            case ast.BinOp(left, operation, right) if type(operation) in OPERATORS:
                return OPERATORS[type(operation)](value(left), value(right))
            case _:
                raise ToolError("only numbers, + - * / and brackets can be worked out")

    try:
        return value(ast.parse(expression, mode="eval").body)
    except (SyntaxError, ArithmeticError) as problem:
        raise ToolError(f"{expression!r} cannot be worked out: {problem}") from problem


@tool
def search_notes(words: str) -> list[str]:
    """Finds the notes in which these words occur."""
    return [note for note in NOTES if words.casefold() in note.casefold()]


TOOLS = (get_weather, calculate, search_notes)
QUESTIONS = {
    "How is the weather in Paris?": "get_weather",
    "What is 17 * 23 + 4?": "calculate",
    "Search my notes for the word garage.": "search_notes",
}


async def answer_question(engine: Engine, executor: ToolExecutor, question: str, choice: str) -> None:
    print(f"\nyou: {question}")
    tools = executor.definitions
    reply = await engine.ask(question, tools=tools, tool_choice=choice, max_tokens=100, temperature=0.0)
    # Each call names an offered tool and matches its schema. The receipt says how that is guaranteed.
    for call in reply.calls:
        print(f"calls: {call.name} {call.function.arguments}\n  {call.receipt}")
    results = [await executor.dispatch(call) for call in reply.calls]
    for result in results:
        print(f"{result.name} {'failed' if result.is_error else 'returned'}: {result.text}")
    history = [ChatMessage.user(question), reply.as_message(), ChatMessage(Role.TOOL, results)]
    answer = await engine.ask(history, tools=tools, tool_choice="none", max_tokens=40, temperature=0.0)
    print(f"model: {answer.text.strip()}")


async def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--choose", action="store_true", help="let the model choose a tool, if any")
    args = parser.parse_args()
    executor = ToolExecutor(Functions(TOOLS))
    await executor.refresh()
    async with engine_of(args) as engine:
        for question, expected in QUESTIONS.items():
            # A model of 135 million parameters chooses poorly, so the tool is named here, but not its arguments.
            await answer_question(engine, executor, question, "auto" if args.choose else expected)


if __name__ == "__main__":
    asyncio.run(main())
