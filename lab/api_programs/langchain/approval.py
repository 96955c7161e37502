import os

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command


def post(text: str) -> str:
    """Post a text in public."""
    return f"posted: {text}"


model = ChatOpenAI(model="smol", base_url=os.environ["URL"] + "/v1", api_key="none")
approval = HumanInTheLoopMiddleware(interrupt_on={"post": True})
agent = create_agent(model, [post], middleware=[approval], checkpointer=InMemorySaver())
config = {"configurable": {"thread_id": "1"}}
result = agent.invoke({"messages": "Post hello."}, config)
while "__interrupt__" in result:
    requests = result["__interrupt__"][0].value["action_requests"]
    answers = [{"type": "approve" if input(f"{one['name']}? ") == "y" else "reject"} for one in requests]
    result = agent.invoke(Command(resume={"decisions": answers}), config)
print(result["messages"][-1].content)
