"""Lower: a value of a schema, in some notation, as plain nodes: what a target without JSON Schema of its own is given.

It says types, enum and const, properties and required in the schema's order, items and prefixItems with their counts,
string lengths, unions and recursion. What it does not say (`schema.limits` lists it) is wider, never narrower.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ferrule.core.json_text import dumps
from ferrule.rules.atoms import BARE_KEY, BOOLEAN, INTEGER, NULL, NUMBER, POSITIVE_NUMBER
from ferrule.rules.integer_ranges import LOWER, integers
from ferrule.rules.rule import (
    EMPTY,
    Members,
    Prose,
    Raw,
    Ref,
    Repeat,
    RuleNode,
    Shared,
    Str,
    Text,
    Value,
    in_order,
    maybe,
    one_of,
    rebuilt,
    seq,
)
from ferrule.rules.schema_merge import merged, types_of
from ferrule.schema.notation import JSON, Notation
from ferrule.schema.refs import local_target
from ferrule.schema.value_decoder import encode, type_name, types_allowed
from ferrule.schema.value_text import UnspellableError, bare_key, loads_verbatim, spell_key, spell_value

_ANYTHING: dict[str, Any] = {}
MOST_COUNTED = 512
"""The longest string whose characters are counted while decoding; a longer limit is left to the validator."""


class Lowering:
    """Lowers the leaves of one rule; `definitions` fills up with what refers to itself, each name after `prefix`."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self.definitions: dict[str, RuleNode] = {}
        self._names: dict[tuple[int, str, tuple[str, ...]], str] = {}
        self._kept: list[object] = []
        self._lowered: dict[int, tuple[RuleNode, RuleNode]] = {}

    def lower(self, node: RuleNode) -> RuleNode:
        """The same node without Value, Raw, Members and Shared in it."""
        if not isinstance(node, Value | Raw | Members | Shared):
            return rebuilt(node, self.lower)
        # Calls stand in several places of a rule; the node is kept, so that its identity stays its own.
        if id(node) not in self._lowered:
            self._lowered[id(node)] = (node, self._leaf(node))
        return self._lowered[id(node)][1]

    def _leaf(self, node: Value | Raw | Members | Shared) -> RuleNode:
        match node:
            case Shared(inner):
                return self.share(self.lower(inner))
            case Value(schema, root, notation, excludes):
                return _Walk(self, root, notation, excludes).value(schema)
            case Raw(schema, root, excludes):
                return self._raw(schema, root, excludes)
            case Members():
                return _Walk(self, node.schema, node.notation, ()).members(node)

    def _raw(self, schema: Any, root: Mapping[str, Any], excludes: tuple[str, ...]) -> RuleNode:
        allowed = types_allowed(schema, root)
        walk = _Walk(self, root, JSON, excludes)
        if "string" not in allowed:
            return walk.value(schema)
        options = walk.constants(schema)
        if options is None:
            # Any text will do: what is exact JSON of another allowed type is read as that, the rest as a string.
            return Prose(excludes, at_most=_longest(walk.flat(schema)))
        written = (encode(dumps(value), allowed) for value in options)
        return one_of(*(Text(raw) for raw in dict.fromkeys(written) if raw is not None))

    def define(self, schema: Any, walk: _Walk) -> Ref:
        """A name for a schema that may contain itself."""
        key = (id(schema), walk.notation.name, walk.excludes)
        name = self._names.get(key)
        if name is None:
            name = f"{self._prefix}d{len(self._names)}"
            self._names[key] = name
            self._kept.append(schema)
            self.definitions[name] = Text("")
            self.definitions[name] = walk.free_value() if schema is _ANYTHING else walk.value(schema)
        return Ref(name)

    def share(self, node: RuleNode) -> Ref:
        """A name for a node that is used more than once."""
        name = f"{self._prefix}s{len(self.definitions)}"
        self.definitions[name] = node
        return Ref(name)


class _Walk:
    """One schema document in one notation."""

    def __init__(
        self, lowering: Lowering, root: Mapping[str, Any], notation: Notation, excludes: tuple[str, ...]
    ) -> None:
        self._lowering, self._root, self.notation, self.excludes = lowering, root, notation, excludes

    def value(self, schema: Any) -> RuleNode:
        if not isinstance(schema, Mapping):
            return self._anything()
        fields = cast("Mapping[str, Any]", schema)
        if not fields.keys() - _ANNOTATIONS:
            return self._anything()
        values = self.constants(fields)
        if values is not None:
            return one_of(*(Text(text) for text in dict.fromkeys(map(self._spelled, values))))
        if "$ref" in fields:
            return self._reference(fields)
        for keyword in ("anyOf", "oneOf"):
            if keyword in fields:
                rest = {key: held for key, held in fields.items() if key != keyword}
                return one_of(*(self.value(_both(rest, option)) for option in fields[keyword]))
        return self.value(self.flat(fields)) if "allOf" in fields else self._typed(fields)

    def flat(self, schema: Any) -> Any:
        """A schema with its `allOf` merged into it and a bare reference followed."""
        target = self._followed(schema)
        if not isinstance(target, Mapping):
            return target
        fields = cast("Mapping[str, Any]", target)
        if "allOf" not in fields:
            return fields
        whole: Any = {key: held for key, held in fields.items() if key != "allOf"}
        for part in fields["allOf"]:
            whole = _both(whole, self.flat(part))
        return whole

    def constants(self, schema: Any) -> list[Any] | None:
        """The values that a schema lists, if it lists them."""
        target = self.flat(schema)
        if not isinstance(target, Mapping):
            return None
        fields = cast("Mapping[str, Any]", target)
        listed: list[Any] = [fields["const"]] if "const" in fields else list(fields.get("enum") or ())
        # A value of another type than the schema's own could be written and never be valid.
        types = {*types_of(fields), *(("integer",) if "number" in types_of(fields) else ())}
        return [value for value in listed if type_name(value) in types] or None

    def _followed(self, schema: Any) -> Any:
        seen = 0
        while isinstance(schema, Mapping) and set(cast("Mapping[str, Any]", schema)) == {"$ref"} and seen < 64:
            schema = local_target(cast("Mapping[str, Any]", schema)["$ref"], self._root)
            seen += 1
        return cast("Any", schema)

    def _reference(self, schema: Mapping[str, Any]) -> RuleNode:
        target = local_target(schema["$ref"], self._root)
        rest = {key: held for key, held in schema.items() if key != "$ref" and key not in _ANNOTATIONS}
        if rest and isinstance(target, Mapping):
            return self.value(_both(rest, target))
        return self._anything() if target is None else self._lowering.define(target, self)

    def _anything(self) -> RuleNode:
        return self._lowering.define(_ANYTHING, self)

    def free_value(self) -> RuleNode:
        """Any value at all."""
        return one_of(
            *(self._of_type(name, _ANYTHING) for name in ("object", "array", "string", "number", "boolean", "null"))
        )

    def _typed(self, schema: Mapping[str, Any]) -> RuleNode:
        names = types_of(schema) if "type" in schema else sorted(types_allowed(schema, self._root))
        if "number" in names:
            names = [name for name in names if name != "integer"]
        return one_of(*(self._of_type(name, schema) for name in names))

    def _of_type(self, name: str, schema: Mapping[str, Any]) -> RuleNode:
        is_positive = any(isinstance(schema.get(k), int | float) and schema[k] >= 0 for k in LOWER)
        match name:
            case "object":
                return self._object(schema)
            case "array":
                return self._array(schema)
            case "string":
                least, most = min(int(schema.get("minLength", 0)), MOST_COUNTED), _longest(schema)
                longest = None if most is None else max(least, most)
                return Str(self.notation.quotes[0], least, longest, schema.get("pattern"), self.excludes)
            case "integer":
                return integers(schema) or INTEGER
            case "number":
                return POSITIVE_NUMBER if is_positive else NUMBER
            case "boolean":
                return one_of(*(Text(self.notation.written[word]) for word in BOOLEAN))
            case _:
                return Text(self.notation.written[NULL])

    def _object(self, schema: Mapping[str, Any]) -> RuleNode:
        inner = _Walk(self._lowering, self._root, self.notation.objects or self.notation, self.excludes)
        return seq("{", inner._listed(schema, inner._key, inner.notation.colon), "}")

    def members(self, node: Members) -> RuleNode:
        """The arguments themselves, in the brackets and with the keys that the family gives them."""
        if node.container.assign == "=":
            listed = self._listed(node.schema, bare_key, "=")
        else:
            listed = self._listed(node.schema, self._key, self.notation.colon, sorts=node.sorts_keys)
        return seq(node.opener, listed, node.container.close)

    def _key(self, name: str) -> str:
        return spell_key(name, self.notation)

    def _listed(self, schema: Mapping[str, Any], spelled: Any, assign: str, *, sorts: bool = False) -> RuleNode:
        """Members in the schema's order, those that are not required left out at will, others after them if asked."""
        properties: Mapping[str, Any] = schema.get("properties") or {}
        required: list[str] = list(schema.get("required") or ())
        extra: Any = schema.get("additionalProperties")
        names = [*properties, *(name for name in required if name not in properties)]
        elements: list[tuple[bool, RuleNode]] = []
        for name in sorted(names) if sorts else names:
            held = properties.get(name, extra if isinstance(extra, Mapping) else {})
            elements.append((name in required, seq(spelled(name) + assign, self.value(held))))
        comma = self.notation.comma
        is_open = (not names and extra is not False) or extra is True or isinstance(extra, Mapping)
        if not is_open and not schema.get("patternProperties"):
            return in_order(elements, comma, self._lowering.share)
        other = self._other_member(extra, assign)
        after = Repeat(seq(comma, other), 0, None)
        # Beside listed members, which may be left out, others cannot be counted.
        most = schema.get("maxProperties") if not names else None
        return in_order(elements, comma, self._lowering.share, after, Repeat(other, 0, most, comma))

    def _other_member(self, extra: Any, assign: str) -> RuleNode:
        key = Str(JSON.quotes[0], excludes=self.excludes)
        if self.notation.has_bare_keys or assign == "=":
            return seq(BARE_KEY, assign, self.value(extra if isinstance(extra, Mapping) else {}))
        quoted = Str(self.notation.quotes[0], excludes=self.excludes) if self.notation is not JSON else key
        return seq(quoted, assign, self.value(extra if isinstance(extra, Mapping) else {}))

    def _array(self, schema: Mapping[str, Any]) -> RuleNode:
        comma = self.notation.comma
        items: Any = schema.get("items", True)
        least = int(schema.get("minItems", 0))
        most = None if schema.get("maxItems") is None else max(least, int(schema["maxItems"]))
        prefix = [self.value(item) for item in schema.get("prefixItems") or ()][:most]
        if not prefix:
            empty = items is False or most == 0
            return Text("[]") if empty else seq("[", Repeat(self.value(items), least, most, comma), "]")
        left = None if most is None else most - len(prefix)
        rest: RuleNode = EMPTY
        if items is not False and left != 0:
            rest = Repeat(seq(comma, self.value(items)), max(0, least - len(prefix)), left)
        for place in range(len(prefix) - 1, -1, -1):
            # An element stands only where all before it do.
            rest = seq(comma if place else "", prefix[place], rest)
            rest = rest if place < least else maybe(rest)
        return seq("[", rest, "]")

    def _spelled(self, value: Any) -> str:
        try:
            return spell_value(loads_verbatim(dumps(value)), self.notation)
        except UnspellableError:
            return dumps(value)


_ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment"}
)


def _both(left: Mapping[str, Any], right: Any) -> Any:
    if not isinstance(right, Mapping):
        return left if right is not False else {"enum": []}
    if not left:
        return cast("Any", right)
    return merged(left, cast("Mapping[str, Any]", right))


def _longest(schema: Any) -> int | None:
    """A length that is worth counting to: every character of it costs the target a state."""
    most = cast("Mapping[str, Any]", schema).get("maxLength") if isinstance(schema, Mapping) else None
    return None if most is None or most > MOST_COUNTED else int(most)
