"""The tools for the wire tests."""

from ferrule import JsonSchema, ToolDefinition

WEATHER = (
    ToolDefinition.build("get_weather")
    .description("The weather in a city")
    .parameter("city", JsonSchema.string(), required=True)
    .parameter("days", JsonSchema.integer())
    .done()
)
PING = ToolDefinition.build("ping").done()
TOOLS = (WEATHER, PING)
