import os

from ollama import Client


def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"{city}: sunny, 21 degrees"


client = Client(host=os.environ["URL"])
messages = [{"role": "user", "content": "How is the weather in Rome?"}]
call = client.chat(model="smol", messages=messages, tools=[get_weather]).message.tool_calls[0]
print(call.function.name, call.function.arguments)
