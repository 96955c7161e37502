import os
from dataclasses import dataclass

from ferrule import load_engine


@dataclass
class City:
    name: str
    country: str


engine = load_engine("openai:smol", url=os.environ["URL"] + "/v1", key="none")
print(engine.ask_sync("Name a city in Italy.", response_type=City).value.country)
