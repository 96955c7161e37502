import os

from ferrule import load_engine, tool


@tool(side_effects=True)
def post(text: str) -> str:
    """Post a text in public."""
    return f"posted: {text}"


engine = load_engine("openai:smol", url=os.environ["URL"] + "/v1", key="none")
print(engine.run_sync("Post hello.", tools=[post], decide=lambda call: input(f"{call.name}? ") == "y").text)
