import os

from ollama import Client


def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"{city}: sunny, 21 degrees"


client = Client(host=os.environ["URL"])
messages = [{"role": "user", "content": "How is the weather in Rome?"}]
reply = client.chat(model="smol", messages=messages, tools=[get_weather])
while reply.message.tool_calls:
    messages.append(reply.message)
    for call in reply.message.tool_calls:
        result = get_weather(**call.function.arguments)
        messages.append({"role": "tool", "tool_name": call.function.name, "content": result})
    reply = client.chat(model="smol", messages=messages, tools=[get_weather])
print(reply.message.content)
