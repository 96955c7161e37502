"""ToolDefinition: a tool's name, description, parameters and binding."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from ferrule.core.json_schema import SchemaDict
from ferrule.core.json_text import digest, dumps
from ferrule.core.text_grammar import TextGrammar
from ferrule.errors import DefinitionError

# What the APIs of all providers accept as a function name; MCP and model templates also use dots and dashes.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]{0,127}")


def is_tool_name(name: object) -> bool:
    """Whether a tool can have this name."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


_NO_PARAMETERS: SchemaDict = {"type": "object", "properties": {}}
CUSTOM_INPUT = "input"
"""The only argument of a custom tool."""


@dataclass(frozen=True, slots=True, init=False)
class ToolDefinition:
    """One tool.

    `parameters` is a JSON Schema of an object, also called `parameters_schema`; names in `required` are added to it.
    `bound_capability` and `bound_version` name what runs the tool on a bus.
    A tool with `side_effects` needs approval for each call, and each call runs at most once.
    A custom tool (`is_custom`) takes a text and no JSON: its only argument is the required string `input`. With an
    `input_grammar` that text must match the grammar. Create one with `ToolDefinition.custom`.

    Example:
        weather = (
            ToolDefinition.build("get_weather")
            .description("The weather in a city.")
            .parameter("city", JsonSchema.string(), required=True)
            .done()
        )
    """

    name: str
    description: str
    parameters: SchemaDict
    bound_capability: str | None
    bound_version: str | None
    side_effects: bool
    admitted_parameters: SchemaDict | None = field(repr=False, compare=False)
    """The same object as `parameters` once these were admitted, so that nobody has to admit them again.

    See `schema.admission_cache.admit_tool`. A copy with other parameters is not admitted.
    """
    is_custom: bool
    input_grammar: TextGrammar | None
    _fingerprint: str = field(init=False, repr=False, compare=False)
    _characters: int = field(init=False, repr=False, compare=False)

    def __init__(
        self,
        name: str,
        description: str = "",
        parameters: Mapping[str, Any] = _NO_PARAMETERS,
        bound_capability: str | None = None,
        bound_version: str | tuple[int, ...] | None = None,
        side_effects: bool = False,
        admitted_parameters: SchemaDict | None = None,
        *,
        parameters_schema: Mapping[str, Any] | None = None,
        required: Iterable[str] = (),
        is_custom: bool = False,
        input_grammar: TextGrammar | None = None,
    ) -> None:
        if not is_tool_name(name):
            raise DefinitionError(
                f"{name!r} is not a tool name",
                hint="Start with a letter or underscore, then letters, digits, _ . - (at most 128 characters).",
            )
        if parameters is _NO_PARAMETERS:
            parameters = parameters_schema if parameters_schema is not None else {**_NO_PARAMETERS, "properties": {}}
        is_dict = type(parameters) is dict
        schema = cast("SchemaDict", parameters) if is_dict else _schema_of(parameters, f"the parameters of {name!r}")
        if required:
            schema = {**schema, "required": list(_unique((*schema.get("required", ()), *required)))}
        if is_custom or input_grammar is not None:
            _check_custom(name, schema, is_custom)
        if isinstance(bound_version, tuple):
            bound_version = ".".join(map(str, bound_version))
        set_field = object.__setattr__
        set_field(self, "name", name)
        set_field(self, "description", description)
        set_field(self, "parameters", schema)
        set_field(self, "bound_capability", bound_capability)
        set_field(self, "bound_version", bound_version)
        set_field(self, "side_effects", side_effects)
        set_field(self, "admitted_parameters", admitted_parameters)
        set_field(self, "is_custom", is_custom)
        set_field(self, "input_grammar", input_grammar)
        set_field(self, "_fingerprint", "")
        set_field(self, "_characters", 0)

    def __hash__(self) -> int:
        """Tools are keys of caches. Their parameters are dictionaries, which have no hash of their own."""
        return hash(self.fingerprint)

    @staticmethod
    def build(name: str) -> ToolDefinitionBuilder:
        """Start a builder; see the example above."""
        return ToolDefinitionBuilder(name)

    new = build

    @staticmethod
    def custom(
        name: str, description: str = "", grammar: TextGrammar | None = None, *, side_effects: bool = False
    ) -> ToolDefinition:
        """Return a tool that takes one text; with a grammar, only a text that matches it.

        Example:
            ToolDefinition.custom("set_level", "Sets a level.", TextGrammar("regex", "low|high"))
        """
        return ToolDefinition(
            name, description, custom_parameters(), side_effects=side_effects, is_custom=True, input_grammar=grammar
        )

    @property
    def parameters_schema(self) -> SchemaDict:
        return self.parameters

    @property
    def required(self) -> tuple[str, ...]:
        """The names of the required arguments."""
        return tuple(self.parameters.get("required", ()))

    @property
    def properties(self) -> Mapping[str, Any]:
        """The schema of each argument, by name."""
        return self.parameters.get("properties", {})

    @property
    def fingerprint(self) -> str:
        """A hash that changes whenever anything changes that a caller agreed to."""
        if not self._fingerprint:
            execution = [self.bound_capability, self.bound_version, self.side_effects]
            grammar = self.input_grammar.as_json() if self.input_grammar else None
            # A function has the fingerprint that it had before there were custom tools.
            custom = [["custom", grammar]] if self.is_custom else []
            value = digest([self.name, self.description, self.parameters, execution, *custom])
            object.__setattr__(self, "_fingerprint", value)
        return self._fingerprint

    @property
    def characters(self) -> int:
        """How many characters the definition has as JSON: about four times its tokens."""
        if not self._characters:
            object.__setattr__(self, "_characters", len(dumps(self.as_function())))
        return self._characters

    def as_function(self) -> dict[str, Any]:
        """Return the definition in OpenAI's format, which chat templates expect too."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}


def custom_parameters() -> SchemaDict:
    """The parameters of a custom tool: an object with one required text."""
    return {
        "type": "object",
        "properties": {CUSTOM_INPUT: {"type": "string"}},
        "required": [CUSTOM_INPUT],
        "additionalProperties": False,
    }


def _check_custom(name: str, schema: SchemaDict, is_custom: bool) -> None:
    properties: Mapping[str, Any] = schema.get("properties") or {}
    is_text = [*properties] == [CUSTOM_INPUT] and properties[CUSTOM_INPUT].get("type") == "string"
    if not is_custom or not is_text or CUSTOM_INPUT not in schema.get("required", ()):
        raise DefinitionError(
            f"tool {name!r} has a grammar or is custom, but does not take exactly one text named {CUSTOM_INPUT!r}",
            hint="Write ToolDefinition.custom(name, description, grammar).",
        )


@dataclass(frozen=True, slots=True)
class ToolDefinitionBuilder:
    """Builds a definition step by step. Every method returns a new builder; `done()` returns the definition.

    Where tools are expected, a builder counts as its definition.
    """

    name: str
    text: str = ""
    properties: Mapping[str, SchemaDict] = field(default_factory=dict[str, SchemaDict])
    required_names: tuple[str, ...] = ()
    capability: str | None = None
    version: str | None = None
    effects: bool = False

    def description(self, text: str) -> ToolDefinitionBuilder:
        return replace(self, text=text)

    def parameter(
        self, name: str, schema: Mapping[str, Any], description: str = "", *, required: bool = False
    ) -> ToolDefinitionBuilder:
        property_schema = {
            **_schema_of(schema, f"parameter {name!r}"),
            **({"description": description} if description else {}),
        }
        builder = replace(self, properties={**self.properties, name: property_schema})
        return builder.required(name) if required else builder

    def required(self, *names: str | Iterable[str]) -> ToolDefinitionBuilder:
        """Mark parameters as required: `.required("a", "b")` or `.required(["a", "b"])`."""
        added = (name for one in names for name in ((one,) if isinstance(one, str) else one))
        return replace(self, required_names=_unique((*self.required_names, *added)))

    def bound_to(self, capability: str, version: str = "1.0") -> ToolDefinitionBuilder:
        return replace(self, capability=capability, version=version)

    def side_effects(self, has_them: bool = True) -> ToolDefinitionBuilder:
        return replace(self, effects=has_them)

    @property
    def definition(self) -> ToolDefinition:
        return self.done()

    def done(self) -> ToolDefinition:
        unknown = [name for name in self.required_names if name not in self.properties]
        if unknown:
            raise DefinitionError(
                f"tool {self.name!r} requires parameters that it does not have: {', '.join(unknown)}",
                hint="Call .parameter(name, schema) for each name given to .required(...).",
            )
        parameters: SchemaDict = {"type": "object", "properties": dict(self.properties)}
        if self.required_names:
            parameters["required"] = list(self.required_names)
        return ToolDefinition(self.name, self.text, parameters, self.capability, self.version, self.effects)


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _schema_of(value: object, what: str) -> SchemaDict:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    raise DefinitionError(
        f"{what} must be a JSON Schema, not {value!r:.60}",
        hint='Write a dict such as {"type": "string"}, or JsonSchema.string(). From a function: @tool.',
    )
