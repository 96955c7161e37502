import os

from ollama import Client


def post(text: str) -> str:
    """Post a text in public."""
    return f"posted: {text}"


client = Client(host=os.environ["URL"])
messages = [{"role": "user", "content": "Post hello."}]
reply = client.chat(model="smol", messages=messages, tools=[post])
while reply.message.tool_calls:
    messages.append(reply.message)
    for call in reply.message.tool_calls:
        result = post(**call.function.arguments) if input(f"{call.function.name}? ") == "y" else "denied"
        messages.append({"role": "tool", "tool_name": call.function.name, "content": result})
    reply = client.chat(model="smol", messages=messages, tools=[post])
print(reply.message.content)
