import os

from ferrule import load_engine


def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"{city}: sunny, 21 degrees"


engine = load_engine("openai:smol", url=os.environ["URL"] + "/v1", key="none")
reply = engine.ask_sync("How is the weather in Rome?", tools=[get_weather], tool_choice="required")
print(reply.calls[0].name, reply.calls[0].arguments)
