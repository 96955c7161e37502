import os

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

model = OpenAIChatModel("smol", provider=OpenAIProvider(base_url=os.environ["URL"] + "/v1", api_key="none"))
for text in Agent(model).run_stream_sync("Say hello.").stream_text(delta=True):
    print(text, end="")
