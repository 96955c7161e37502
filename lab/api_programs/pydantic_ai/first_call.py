import os

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


def get_weather(city: str) -> str:
    """The weather of a city."""
    print("get_weather", {"city": city})
    return f"{city}: sunny, 21 degrees"


model = OpenAIChatModel("smol", provider=OpenAIProvider(base_url=os.environ["URL"] + "/v1", api_key="none"))
Agent(model, tools=[get_weather]).run_sync("How is the weather in Rome?")
