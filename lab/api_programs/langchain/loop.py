import os

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI


def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"{city}: sunny, 21 degrees"


model = ChatOpenAI(model="smol", base_url=os.environ["URL"] + "/v1", api_key="none")
result = create_agent(model, [get_weather]).invoke({"messages": "How is the weather in Rome?"})
print(result["messages"][-1].content)
