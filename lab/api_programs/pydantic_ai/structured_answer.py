import os
from dataclasses import dataclass

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


@dataclass
class City:
    name: str
    country: str


model = OpenAIChatModel("smol", provider=OpenAIProvider(base_url=os.environ["URL"] + "/v1", api_key="none"))
print(Agent(model, output_type=City).run_sync("Name a city in Italy.").output.country)
