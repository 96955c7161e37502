import os

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, Tool
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


def post(text: str) -> str:
    """Post a text in public."""
    return f"posted: {text}"


model = OpenAIChatModel("smol", provider=OpenAIProvider(base_url=os.environ["URL"] + "/v1", api_key="none"))
agent = Agent(model, tools=[Tool(post, requires_approval=True)], output_type=[str, DeferredToolRequests])
result = agent.run_sync("Post hello.")
while isinstance(result.output, DeferredToolRequests):
    answers = {call.tool_call_id: input(f"{call.tool_name}? ") == "y" for call in result.output.approvals}
    decisions = DeferredToolResults(approvals=answers)
    result = agent.run_sync(message_history=result.all_messages(), deferred_tool_results=decisions)
print(result.output)
