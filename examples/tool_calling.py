"""Tool calling, step by step: the model calls, you run the call, and the model reads what came of it.

Three tools: the weather, a calculator and a search. The loop is written out here; `many_turns.py` leaves it to Ferrule.
"""

from __future__ import annotations

import ast
import asyncio
import operator
from collections.abc import Callable

from engine_option import engine_of, options

from ferrule import ChatMessage, Engine, Role, ToolCallRequest, ToolChoice, ToolError, ToolExecutor, tool
from ferrule.sources.functions import Functions

WEATHER = {"Paris": "sunny, 24 degrees", "Rome": "showers, 21 degrees", "Oslo": "snow, 2 degrees"}
NOTES = ("The spare key hangs in the garage.", "The boiler wants 1.5 bar.", "The garage is locked at ten.")
OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


# The name, the docstring and the annotations are what the model is told, and the schema that its call must fit.
@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    if city not in WEATHER:
        # A ToolError's words are for the model. Of any other exception it learns only that there was one.
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


async def answered(engine: Engine, executor: ToolExecutor, question: str, choice: ToolChoice) -> None:
    print(f"\nyou: {question}")
    asked = ToolCallRequest(
        messages=(ChatMessage.user(question),),
        tools=executor.definitions,
        tool_choice=choice,
        max_tokens=100,
        temperature=0.0,
    )
    reply = await engine.generate_with_tools(asked)
    # Each call names an offered tool and fits its schema. The receipt says how that is known.
    for call in reply.calls:
        print(f"calls: {call.name} {call.function.arguments}\n  {call.receipt}")
    results = [await executor.dispatch(call) for call in reply.calls]
    for result in results:
        print(f"{result.name} {'failed' if result.is_error else 'gave'}: {result.text}")
    told = (*asked.messages, reply.as_message(), ChatMessage(Role.TOOL, tuple(results)))
    answer = await engine.generate_with_tools(
        ToolCallRequest(messages=told, tools=asked.tools, tool_choice=ToolChoice.none(), max_tokens=40, temperature=0.0)
    )
    print(f"model: {answer.text.strip()}")


async def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--choose", action="store_true", help="leave it to the model which tool it calls, if any")
    given = parser.parse_args()
    executor = ToolExecutor(Functions(TOOLS))
    await executor.refresh()
    async with engine_of(given) as engine:
        for question, meant in QUESTIONS.items():
            # 135 million parameters are too few to choose well, so here the tool is named and its arguments are not.
            choice = ToolChoice.auto() if given.choose else ToolChoice.one(meant)
            await answered(engine, executor, question, choice)


if __name__ == "__main__":
    asyncio.run(main())
