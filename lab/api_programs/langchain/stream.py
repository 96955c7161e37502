import os

from langchain_openai import ChatOpenAI

model = ChatOpenAI(model="smol", base_url=os.environ["URL"] + "/v1", api_key="none")
for chunk in model.stream("Say hello."):
    print(chunk.content, end="")
