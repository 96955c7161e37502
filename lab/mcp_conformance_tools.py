"""The tools that the MCP conformance suite calls on a server, as functions of a gateway: `ferrule serve --tools`."""

import asyncio
import base64
from dataclasses import replace
from typing import Any, Final

from ferrule import CallContext, Media, ToolDefinition, ToolError, tool

_PNG: Final = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="
)
_WAV: Final = b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0data\0\0\0\0"
# The schema that the suite wants back unchanged, in our own words of the same keywords.
_KEYWORDS: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@tool(side_effects=False)
def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


@tool(side_effects=False)
def test_image_content() -> Media:
    """Return an image."""
    return Media("image", "image/png", data=_PNG)


@tool(side_effects=False)
def test_audio_content() -> Media:
    """Return a recording."""
    return Media("audio", "audio/wav", data=_WAV)


@tool(side_effects=False)
def test_embedded_resource() -> Media:
    """Return a resource."""
    return Media("file", "text/plain", data=b"This is an embedded resource content.", name="test://embedded-resource")


@tool(side_effects=False)
def test_multiple_content_types() -> list[Any]:
    """Return a text, an image and a resource."""
    data = b'{"test":"data","value":123}'
    resource = Media("file", "application/json", data=data, name="test://mixed-content-resource")
    return ["Multiple content types test:", Media("image", "image/png", data=_PNG), resource]


@tool(side_effects=False)
def test_error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


@tool(side_effects=False)
async def test_tool_with_progress(context: CallContext) -> str:
    """Report progress three times."""
    for done in (0, 50, 100):
        context.report(done, 100)
    return "done"


@tool(side_effects=False)
def json_schema_2020_12_tool() -> str:
    """Take arguments of a schema with many keywords."""
    return "ok"


@tool(side_effects=False)
def greet(name: str) -> str:
    """Greet somebody, at once."""
    return f"Hello, {name}!"


@tool(side_effects=False)
async def slow_compute(seconds: float, label: str = "") -> str:
    """Take so many seconds."""
    await asyncio.sleep(seconds)
    return f"{label} is computed"


@tool(side_effects=False)
async def failing_job() -> str:
    """Fail after a second."""
    await asyncio.sleep(1)
    raise ToolError("the job failed")


@tool(side_effects=False)
async def protocol_error_job() -> str:
    """Fail after a second, without saying why."""
    await asyncio.sleep(1)
    raise RuntimeError


@tool(side_effects=True)
def confirm_delete(filename: str) -> str:
    """Delete nothing, after approval."""
    return f"{filename} is deleted"


def _with_schema(function: Any, schema: dict[str, Any]) -> Any:
    definition: ToolDefinition = function.definition
    return replace(
        function, definition=ToolDefinition(definition.name, definition.description, schema, side_effects=False)
    )


TOOLS: Final = [
    test_simple_text,
    test_image_content,
    test_audio_content,
    test_embedded_resource,
    test_multiple_content_types,
    test_error_handling,
    test_tool_with_progress,
    greet,
    slow_compute,
    failing_job,
    protocol_error_job,
    confirm_delete,
    _with_schema(json_schema_2020_12_tool, _KEYWORDS),
]
