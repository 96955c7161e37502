import os

from ollama import Client
from pydantic import BaseModel


class City(BaseModel):
    name: str
    country: str


client = Client(host=os.environ["URL"])
messages = [{"role": "user", "content": "Name a city in Italy."}]
reply = client.chat(model="smol", messages=messages, format=City.model_json_schema())
print(City.model_validate_json(reply.message.content).country)
