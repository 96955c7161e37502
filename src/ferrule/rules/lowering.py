"""Lower schema values to plain nodes, for targets that have no JSON Schema compiler.

The problem
-----------
A rule contains leaves such as "a value of this schema, in this notation". llguidance compiles such a leaf itself if the
notation is JSON. Every other case needs plain nodes: GBNF and xgrammar's EBNF match characters only, and no engine has
a schema compiler for Python literals or for a family's own notation. Lowering replaces `Value`, `Raw`, `Members` and
`Shared` by texts, character classes, repetitions, strings and references. Every emitter can write those.

What is lowered
---------------
Types, `enum` and `const`, `properties` and `required`, `items` and `prefixItems` with their counts, string lengths,
integer bounds, unions, `allOf` and recursion. `schema/target_limits_lowering.py` lists for every keyword whether it is
enforced, approximated or not enforced, and tests prove each row with the real matchers.

The result may be wider than the schema: whatever is not enforced is checked after decoding. It is narrower in two ways,
both on purpose. Members come in the schema's order: a name that must come next need not be generated, so a call in
order is faster, and most targets cannot express any other order. Members that are not listed come last, and only if
the schema mentions them (`schema.object_members`); their names are none of the listed ones and have no `\\u` escapes,
with which a listed name could be written again.

How it works
------------
`_SchemaWalk` walks one schema document in one notation:

- Annotations alone mean any value. Listed values (`enum`, `const`) become literal texts. A listed value whose type the
  schema does not allow is dropped: the model could write it, and it would never be valid.
- For `anyOf` and `oneOf`, the keywords beside them are merged into each option, and the result is a choice. `oneOf`
  becomes `anyOf`, because a grammar cannot express "exactly one". `allOf` is merged into one schema (`schema_merge`).
- Objects become members in order. Optional members make this the hard part: the first written member has no separator,
  so there is one option for each member that may come first. `in_order` gives the common tails a name, so the size
  stays linear in the number of members.
- Integers with bounds are written digit by digit (`integer_ranges`). For other numbers only the sign is enforced.
- A `$ref` becomes a named definition, so recursion ends. The key of a definition is the identity of the schema, the
  notation and the excluded texts, because the same schema reads differently in another notation. The name is registered
  before the definition is walked, so a schema that contains itself finds its own name.

Raw values
----------
Some families write an argument as raw text between tags. If the schema allows a string, any text is valid there: text
that is exact JSON of another allowed type is read as that type, and the rest as a string. Only listed values can be
enforced in that case, in the form that decodes to them.

Cost
----
Each counted character costs a target a state, so lengths above `MAX_COUNTED_LENGTH` are left to the validator. A rule
contains the same call in several places, so results are cached by the identity of the node. Nodes and schemas are kept
alive as long as their `id` is a key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from ferrule.core.json_text import dumps
from ferrule.core.text_grammar import TextGrammar
from ferrule.errors import FormatError
from ferrule.rules.integer_ranges import LOWER, integers
from ferrule.rules.rule import (
    EMPTY,
    AdditionalKey,
    Chars,
    GrammarText,
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
    grammar_of_schema,
    in_order,
    map_children,
    maybe,
    once,
    one_of,
    prepend_text,
    seq,
)
from ferrule.rules.schema_merge import merge_schemas, types_of
from ferrule.rules.text_grammar import spelling_in, write_grammar
from ferrule.schema.notation import BARE_KEY as BARE_KEY_TEXT
from ferrule.schema.notation import BARE_KEY_CHARACTERS, JSON, Escapes, Notation, Quote
from ferrule.schema.object_members import additional_counts, additional_schema, listed_names, member_schema
from ferrule.schema.refs import local_target
from ferrule.schema.value_decoder import encode, type_name, types_allowed
from ferrule.schema.value_text import (
    UnrepresentableError,
    bare_key,
    loads_verbatim,
    write_key,
    write_string,
    write_value,
)

BOOLEAN = ("true", "false")
NULL = "null"

_DIGIT = Chars((("0", "9"),))
_FRACTION = maybe(seq(".", Repeat(_DIGIT, 1)))
_EXPONENT = maybe(seq(Chars((("e", "e"), ("E", "E"))), maybe(Chars((("+", "+"), ("-", "-")))), Repeat(_DIGIT, 1, 3)))
_SIGN = maybe(Text("-"))

# No limit on digits: a number that is ended for the model is another number.
NATURAL = once(one_of(Text("0"), seq(Chars((("1", "9"),)), Repeat(_DIGIT))))
INTEGER = once(seq(_SIGN, NATURAL))
POSITIVE_NUMBER = once(seq(NATURAL, _FRACTION, _EXPONENT))
NUMBER = once(seq(_SIGN, NATURAL, _FRACTION, _EXPONENT))
BARE_KEY = Repeat(Chars(BARE_KEY_CHARACTERS), 1)


_LOWERED_KINDS = (Value, Raw, Members, Shared)
_ANYTHING: dict[str, Any] = {}
_NAMED_TAIL = 16
# Escapes with which a listed name could be written in a second way. A key that needs one of them cannot be written.
_NEEDLESS_ESCAPES = ("\\u", "\\x", "\\/")
MAX_COUNTED_LENGTH = 512
"""The largest string length that is counted while decoding. The validator checks larger limits."""


ScalarKey = tuple[str, str, tuple[str, ...]]
_SCALAR_TYPES = frozenset({"string", "integer", "number", "boolean", "null"})
_SCALAR_KEYWORDS = frozenset({"type", "enum", "minLength", "maxLength", "pattern", "format", "minimum", "maximum"})


def _scalar_key(schema: Any, notation: str, excludes: tuple[str, ...]) -> ScalarKey | None:
    """What the lowered form of a scalar depends on; None if the schema may be of anything else.

    It is a text, because 1, 1.0 and true are one key of a dictionary and three values of a schema.
    """
    if not isinstance(schema, dict):
        return None
    fields = cast("dict[str, Any]", schema)
    kind = fields.get("type")
    if not isinstance(kind, str) or kind not in _SCALAR_TYPES:
        return None
    own = {keyword: value for keyword, value in fields.items() if keyword not in _ANNOTATIONS}
    return (repr(own), notation, excludes) if _SCALAR_KEYWORDS.issuperset(own) else None


class Lowering:
    """Lowers the leaves of one rule. Named parts are collected in `definitions`; each name begins with `prefix`.

    `scalars` are lowered values that refer to no definition. Several lowerings can share them, because the arguments of
    a tool set have the same few types. With `has_grammars` the text of a custom tool becomes a `GrammarText`, if the
    notation can hold its grammar; the others are in `lost_grammars`, and are lowered as any string.
    """

    def __init__(
        self, prefix: str = "", scalars: dict[ScalarKey, RuleNode] | None = None, *, has_grammars: bool = False
    ) -> None:
        self._has_grammars = has_grammars
        self.lost_grammars: list[TextGrammar] = []
        self._prefix = prefix
        self.scalars: dict[ScalarKey, RuleNode] = {} if scalars is None else scalars
        self.definitions: dict[str, RuleNode] = {}
        self._names: dict[tuple[int, str, tuple[str, ...]], str] = {}
        self._named_schemas: list[object] = []
        self._lowered: dict[int, tuple[RuleNode, RuleNode]] = {}

    def lower(self, node: RuleNode) -> RuleNode:
        """The same node without any Value, Raw, Members or Shared in it."""
        if not isinstance(node, _LOWERED_KINDS):
            return map_children(node, self.lower)
        # A rule contains the same call in several places. The node is stored too, so that its `id` stays valid.
        if id(node) not in self._lowered:
            self._lowered[id(node)] = (node, self._leaf(node))
        return self._lowered[id(node)][1]

    def _leaf(self, node: Value | Raw | Members | Shared) -> RuleNode:
        match node:
            case Shared(inner):
                return self.share(self.lower(inner))
            case Value(schema, root, notation, excludes):
                return _SchemaWalk(self, root, notation, excludes).value(schema)
            case Raw(schema, root, excludes):
                return self._raw(schema, root, excludes)
            case Members():
                return _SchemaWalk(self, node.schema, node.notation, ()).members(node)

    def _raw(self, schema: Any, root: Mapping[str, Any], excludes: tuple[str, ...]) -> RuleNode:
        key = _scalar_key(schema, "raw", excludes)
        if key is None:
            return self._raw_value(schema, root, excludes)
        if key not in self.scalars:
            self.scalars[key] = self._raw_value(schema, root, excludes)
        return self.scalars[key]

    def _raw_value(self, schema: Any, root: Mapping[str, Any], excludes: tuple[str, ...]) -> RuleNode:
        allowed = types_allowed(schema, root)
        walk = _SchemaWalk(self, root, JSON, excludes)
        if "string" not in allowed:
            return walk.value(schema)
        options = walk.constants(schema)
        if options is None:
            if (text := self.grammar_text(schema, None, excludes)) is not None:
                return text
            # Any text is valid: exact JSON of another allowed type is read as that type, the rest as a string.
            return Prose(excludes, at_most=_max_length(walk.flatten(schema)))
        raw_texts = (encode(dumps(value), allowed) for value in options)
        return one_of(*(Text(raw) for raw in dict.fromkeys(raw_texts) if raw is not None))

    def grammar_text(self, schema: Any, quote: Quote | None, excludes: tuple[str, ...]) -> GrammarText | None:
        """The text of a string's grammar, written in these quotes, which are not part of it; None if it has none."""
        grammar = grammar_of_schema(cast("Mapping[str, Any]", schema)) if isinstance(schema, Mapping) else None
        if grammar is None or not self._has_grammars:
            return None
        if not write_grammar(grammar, spelling_in(quote, excludes)).is_holdable:
            self.lost_grammars.append(grammar)
            return None
        return GrammarText(grammar, quote, excludes)

    def define(self, schema: Any, walk: _SchemaWalk) -> Ref:
        """A reference to the definition of a schema that may contain itself."""
        key = (id(schema), walk.notation.name, walk.excludes)
        name = self._names.get(key)
        if name is None:
            name = f"{self._prefix}d{len(self._names)}"
            self._names[key] = name
            self._named_schemas.append(schema)
            self.definitions[name] = Text("")
            self.definitions[name] = walk.free_value() if schema is _ANYTHING else walk.value(schema)
        return Ref(name)

    def share(self, node: RuleNode) -> Ref:
        """A reference to a new definition, for a node that is used more than once."""
        name = f"{self._prefix}s{len(self.definitions)}"
        self.definitions[name] = node
        return Ref(name)


class _SchemaWalk:
    """One schema document in one notation."""

    def __init__(
        self, lowering: Lowering, root: Mapping[str, Any], notation: Notation, excludes: tuple[str, ...]
    ) -> None:
        self._lowering, self._root, self.notation, self.excludes = lowering, root, notation, excludes

    def value(self, schema: Any) -> RuleNode:
        if not isinstance(schema, Mapping):
            return self._anything()
        fields = cast("Mapping[str, Any]", schema)
        if _ANNOTATIONS.issuperset(fields):
            return self._anything()
        key, scalars = _scalar_key(fields, self.notation.name, self.excludes), self._lowering.scalars
        if key is None:
            return self._value(fields)
        if key not in scalars:
            scalars[key] = self._value(fields)
        return scalars[key]

    def _value(self, fields: Mapping[str, Any]) -> RuleNode:
        values = self.constants(fields)
        if values is not None:
            return one_of(*(Text(text) for text in dict.fromkeys(map(self._constant_text, values))))
        if "$ref" in fields:
            return self._reference(fields)
        for keyword in ("anyOf", "oneOf"):
            if keyword in fields:
                rest = {key: subschema for key, subschema in fields.items() if key != keyword}
                return one_of(*(self.value(_merge(rest, option)) for option in fields[keyword]))
        return self.value(self.flatten(fields)) if "allOf" in fields else self._typed_value(fields)

    def flatten(self, schema: Any) -> Any:
        """The schema with its `allOf` merged into it and a bare reference followed."""
        target = self._follow_refs(schema)
        if not isinstance(target, Mapping):
            return target
        fields = cast("Mapping[str, Any]", target)
        if "allOf" not in fields:
            return fields
        result: Any = {key: value for key, value in fields.items() if key != "allOf"}
        for part in fields["allOf"]:
            result = _merge(result, self.flatten(part))
        return result

    def constants(self, schema: Any) -> list[Any] | None:
        """The values that a schema lists with `enum` or `const`; None if it lists none."""
        target = self.flatten(schema)
        if not isinstance(target, Mapping):
            return None
        fields = cast("Mapping[str, Any]", target)
        if "const" not in fields and "enum" not in fields:
            return None
        values: list[Any] = [fields["const"]] if "const" in fields else list(fields.get("enum") or ())
        # The model could write a value of a type that the schema does not allow, and it would never be valid.
        types = {*types_of(fields), *(("integer",) if "number" in types_of(fields) else ())}
        return [value for value in values if type_name(value) in types] or None

    def _follow_refs(self, schema: Any) -> Any:
        hops = 0
        while (
            isinstance(schema, Mapping)
            and "$ref" in schema
            and len(cast("Mapping[str, Any]", schema)) == 1
            and hops < 64
        ):
            schema = local_target(cast("Mapping[str, Any]", schema)["$ref"], self._root)
            hops += 1
        return cast("Any", schema)

    def _reference(self, schema: Mapping[str, Any]) -> RuleNode:
        target = local_target(schema["$ref"], self._root)
        rest = {key: value for key, value in schema.items() if key != "$ref" and key not in _ANNOTATIONS}
        if rest and isinstance(target, Mapping):
            return self.value(_merge(rest, target))
        return self._anything() if target is None else self._lowering.define(target, self)

    def _anything(self) -> RuleNode:
        return self._lowering.define(_ANYTHING, self)

    def free_value(self) -> RuleNode:
        """A node for any value."""
        return one_of(
            *(self._of_type(name, _ANYTHING) for name in ("object", "array", "string", "number", "boolean", "null"))
        )

    def _typed_value(self, schema: Mapping[str, Any]) -> RuleNode:
        names = types_of(schema) if "type" in schema else sorted(types_allowed(schema, self._root))
        if "number" in names:
            names = [name for name in names if name != "integer"]
        return one_of(*(self._of_type(name, schema) for name in names))

    def _of_type(self, name: str, schema: Mapping[str, Any]) -> RuleNode:
        match name:
            case "object":
                return self._object(schema)
            case "array":
                return self._array(schema)
            case "string":
                quote = self.notation.quotes[0]
                is_raw = quote.escapes is Escapes.NONE
                excludes = (quote.close, *self.excludes) if is_raw else self.excludes
                text = self._lowering.grammar_text(schema, None if is_raw else quote, excludes)
                if text is not None:
                    return seq(quote.open, text, quote.close)
                least, most = min(int(schema.get("minLength", 0)), MAX_COUNTED_LENGTH), _max_length(schema)
                longest = None if most is None else max(least, most)
                return Str(self.notation.quotes[0], least, longest, schema.get("pattern"), self.excludes)
            case "integer":
                return integers(schema) or INTEGER
            case "number":
                is_positive = any(isinstance(schema.get(k), int | float) and schema[k] >= 0 for k in LOWER)
                return POSITIVE_NUMBER if is_positive else NUMBER
            case "boolean":
                return one_of(*(Text(self.notation.written_constants[word]) for word in BOOLEAN))
            case _:
                return Text(self.notation.written_constants[NULL])

    def _object(self, schema: Mapping[str, Any]) -> RuleNode:
        walk = _SchemaWalk(self._lowering, self._root, self.notation.objects or self.notation, self.excludes)
        return seq("{", walk._members_in_order(schema, walk._key, walk.notation.colon), "}")

    def members(self, node: Members) -> RuleNode:
        """The arguments of a call, with the brackets and keys of the family."""
        if node.container.assign == "=":
            arguments = self._members_in_order(node.schema, lambda name: bare_key(name, self.notation), "=")
        else:
            arguments = self._members_in_order(node.schema, self._key, self.notation.colon, sorts=node.sorts_keys)
        return seq(node.opener, arguments, node.container.close)

    def _key(self, name: str) -> str:
        return write_key(name, self.notation)

    def _members_in_order(
        self, schema: Mapping[str, Any], write_name: Callable[[str], str], assign: str, *, sorts: bool = False
    ) -> RuleNode:
        """Members in the schema's order. Optional ones may be missing; additional ones follow if they are allowed."""
        names = listed_names(schema)
        additional = additional_schema(schema)
        required = frozenset(cast("Sequence[str]", schema.get("required", ())))
        elements: list[tuple[bool, RuleNode]] = []
        for name in sorted(names) if sorts else names:
            key = self._key_text(name, write_name) + assign
            elements.append((name in required, seq(key, self.value(member_schema(schema, name)))))
        comma = self.notation.comma
        if additional is None:
            return in_order(elements, comma, self._lowering.share)
        other = seq(one_of(*self._additional_keys(assign, names)), self.value(additional))
        counts = additional_counts(schema)
        after = Repeat(prepend_text(comma, other), *counts)
        return in_order(elements, comma, self._lowering.share, after, Repeat(other, *counts, comma))

    def _additional_keys(self, assign: str, names: tuple[str, ...]) -> Iterator[AdditionalKey]:
        """Each way to write a key that is none of the names: bare if the notation has bare keys, and in quotes."""
        quote = self.notation.quotes[0]
        if self.notation.has_bare_keys or assign == "=":
            yield AdditionalKey("", BARE_KEY, assign, tuple(name for name in names if BARE_KEY_TEXT.fullmatch(name)))
        if quote.escapes is Escapes.NONE:
            yield AdditionalKey(quote.open, Prose((quote.close, *self.excludes)), quote.close + assign, names)
        else:
            needless = (*_NEEDLESS_ESCAPES, "\\'" if quote.close == '"' else '\\"') if names else ()
            listed = tuple(write_string(name, quote) for name in names)
            yield AdditionalKey("", Str(quote, excludes=(*self.excludes, *needless)), assign, listed)

    def _key_text(self, name: str, write_name: Callable[[str], str]) -> str:
        try:
            return write_name(name)
        except UnrepresentableError as refusal:
            raise FormatError(
                f"this format cannot write the argument name {name!r}: {refusal}",
                code="unwritable_name",
                hint="Rename the property: use letters, digits and underscores.",
            ) from refusal

    def _array(self, schema: Mapping[str, Any]) -> RuleNode:
        comma = self.notation.comma
        items: Any = schema.get("items", True)
        least = int(schema.get("minItems", 0))
        most = None if schema.get("maxItems") is None else max(least, int(schema["maxItems"]))
        prefix = [self.value(item) for item in schema.get("prefixItems") or ()][:most]
        if not prefix:
            empty = items is False or most == 0
            return Text("[]") if empty else seq("[", Repeat(self.value(items), least, most, comma), "]")
        remaining = None if most is None else most - len(prefix)
        rest: RuleNode = EMPTY
        if items is not False and remaining != 0:
            rest = Repeat(seq(comma, self.value(items)), max(0, least - len(prefix)), remaining)
        for index in range(len(prefix) - 1, -1, -1):
            # An element can only be present if all elements before it are.
            rest = seq(comma if index else "", prefix[index], rest)
            rest = rest if index < least else maybe(rest)
            # A target and this walk both recurse into nested nodes, so a long tail gets a name.
            rest = self._lowering.share(rest) if index and index % _NAMED_TAIL == 0 else rest
        return seq("[", rest, "]")

    def _constant_text(self, value: Any) -> str:
        try:
            return write_value(loads_verbatim(dumps(value)), self.notation)
        except UnrepresentableError:
            return dumps(value)


_ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment"}
)


def _merge(left: Mapping[str, Any], right: Any) -> Any:
    if not isinstance(right, Mapping):
        return left if right is not False else {"enum": []}
    if not left:
        return cast("Any", right)
    return merge_schemas(left, cast("Mapping[str, Any]", right))


def _max_length(schema: Any) -> int | None:
    """The `maxLength` of a schema, or None if it is too large to count: every character costs the target a state."""
    most = cast("Mapping[str, Any]", schema).get("maxLength") if isinstance(schema, Mapping) else None
    return None if most is None or most > MAX_COUNTED_LENGTH else int(most)
