import os

from ferrule import load_engine

engine = load_engine("openai:smol", url=os.environ["URL"] + "/v1", key="none")
for text in engine.stream_text_sync("Say hello."):
    print(text, end="")
