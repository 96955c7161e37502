"""Tools and templates for the engine tests."""

from __future__ import annotations

from ferrule import ChatMessage, ToolCallRequest, ToolChoice, ToolDefinition

WEATHER = (
    ToolDefinition.build("get_weather")
    .description("The weather of a city.")
    .parameter("city", {"type": "string"}, required=True)
    .parameter("days", {"type": "integer", "minimum": 1, "maximum": 7})
    .done()
)
TAGS = (
    ToolDefinition.build("set_tags")
    .parameter("tags", {"type": "array", "items": {"type": "string"}, "uniqueItems": True}, required=True)
    .done()
)
PING = ToolDefinition("ping", "Nothing.")
PLAIN_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def make_request(
    text: str = "How is Paris?", tools: tuple[ToolDefinition, ...] = (WEATHER,), choice: ToolChoice | None = None
) -> ToolCallRequest:
    return ToolCallRequest(
        messages=(ChatMessage.user(text),), tools=tools, tool_choice=choice or ToolChoice.auto(), max_tokens=512
    )
