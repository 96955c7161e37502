import os

from ollama import Client

client = Client(host=os.environ["URL"])
messages = [{"role": "user", "content": "Say hello."}]
for part in client.chat(model="smol", messages=messages, stream=True):
    print(part.message.content, end="")
