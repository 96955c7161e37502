"""ResponseType: a Python type that an answer must fit. It gives the JSON Schema, and the value of a reply's text.

Providers accept only objects as the schema of an answer. Any other type, such as `list[str]`, is therefore the one
member "value" of an object, and taken out of it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from ferrule.core.event import FinishReason
from ferrule.core.json_text import loads
from ferrule.core.reply import Reply
from ferrule.errors import InvalidResponseError, SchemaError
from ferrule.schema.checker import checker_for
from ferrule.schema.inference import infer_type
from ferrule.schema.python_arguments import value_for
from ferrule.schema.refs import local_target

_MEMBER = "value"


@dataclass(frozen=True, slots=True)
class ResponseType:
    """What an answer must be. `annotation` is None if only a schema is known; then values are plain JSON values.

    Example:
        @dataclass
        class City:
            name: str
            country: str

        kind = ResponseType.of(City)
        kind.schema["required"]                                             # ["name", "country"]
        kind.value_of(Reply.of('{"name": "Rome", "country": "Italy"}'))     # City(name="Rome", country="Italy")
    """

    schema: dict[str, Any]
    annotation: Any = None
    is_wrapped: bool = False

    @staticmethod
    def of(annotation: Any) -> ResponseType:
        """Make it from a pydantic model, a dataclass, a TypedDict, or any other type that has a JSON Schema."""
        schema = infer_type(annotation)
        definitions = {name: value for name, value in schema.items() if name == "$defs"}
        if "$ref" in schema:
            # A class that contains itself. Its definition is repeated at the root, where providers want the object.
            schema = {**cast("dict[str, Any]", local_target(schema["$ref"], schema)), **definitions}
        if schema.get("type") == "object":
            return ResponseType(schema, annotation)
        wrapped: dict[str, Any] = {
            "type": "object",
            "properties": {_MEMBER: {name: value for name, value in schema.items() if name != "$defs"}},
            "required": [_MEMBER],
            "additionalProperties": False,
        }
        return ResponseType({**wrapped, **definitions}, annotation, True)

    def value_of(self, reply: Reply) -> Any:
        """Return the reply's text as a value; raises `InvalidResponseError` if it does not fit."""
        if reply.finish_reason is FinishReason.LENGTH:
            raise InvalidResponseError("the answer was cut off", hint="Pass a larger max_tokens.")
        if reply.calls and not reply.text.strip():
            raise InvalidResponseError(
                "the model called tools instead of answering", hint="Read reply.calls, or use engine.run."
            )
        try:
            data = loads(reply.text)
        except ValueError as damage:
            raise InvalidResponseError(f"the answer is not JSON: {reply.text!r:.80}") from damage
        faults = checker_for(self.schema).faults(data)
        if faults:
            raise InvalidResponseError(f"the answer does not fit: {'; '.join(map(str, faults))}")
        if self.annotation is None:
            return data
        value = cast("Mapping[str, object]", data)[_MEMBER] if self.is_wrapped else data
        try:
            return value_for(self.annotation, value)
        except SchemaError as mismatch:
            raise InvalidResponseError(f"the answer does not fit: {mismatch.message}") from mismatch
