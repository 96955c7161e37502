import os

from langchain_openai import ChatOpenAI


def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"{city}: sunny, 21 degrees"


model = ChatOpenAI(model="smol", base_url=os.environ["URL"] + "/v1", api_key="none")
reply = model.bind_tools([get_weather], tool_choice="any").invoke("How is the weather in Rome?")
print(reply.tool_calls[0]["name"], reply.tool_calls[0]["args"])
