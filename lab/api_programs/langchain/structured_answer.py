import os

from langchain_openai import ChatOpenAI
from pydantic import BaseModel


class City(BaseModel):
    name: str
    country: str


model = ChatOpenAI(model="smol", base_url=os.environ["URL"] + "/v1", api_key="none")
print(model.with_structured_output(City).invoke("Name a city in Italy.").country)
