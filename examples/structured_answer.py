"""Tools, and then a structured answer: JSON that matches a schema, converted to the program's own type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine_option import engine_of, options


@dataclass(frozen=True, slots=True)
class Advice:
    city: str
    degrees: int
    sky: Literal["sunny", "cloudy", "rainy"]


def get_weather(city: str) -> str:
    """The weather of a city."""
    result = f"{city}: rainy, 21 degrees"
    print(f"get_weather returned: {result}")
    return result


def main() -> None:
    question = "How is the weather in Rome?"
    print(f"you: {question}")
    with engine_of(options(__doc__).parse_args()) as engine:
        turn = engine.run_sync(
            question,
            tools=[get_weather],
            response_type=Advice,  # constrains every answer; calls are constrained by the schemas of their tools
            tool_choice_policy="required_first_hop",
            parallel_tool_calls=False,
            max_iterations=1,
            max_tokens=80,
            temperature=0.0,
        )
    print(f"model: {turn.text}")
    # An answer that was cut off or does not fit raises InvalidResponseError here.
    advice: Advice = turn.value
    print(f"as a value: {advice}")
    print("take an umbrella" if advice.sky == "rainy" else "leave the umbrella")


if __name__ == "__main__":
    main()
