"""Bind a format, tools and a tool choice to the rule for one reply: the third walk over the format's tree.

The rule allows canonical text only, and excludes everything that the parser would read as something else. A choice that
the format cannot express raises here, before anything is generated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any

from ferrule.core.byte_cache import ENTRY_BYTES
from ferrule.core.json_text import dumps
from ferrule.core.request import ChoiceMode, ToolChoice
from ferrule.core.tool import CUSTOM_INPUT, ToolDefinition
from ferrule.core.tool_cache import ToolCache
from ferrule.errors import FormatError
from ferrule.rules.rule import (
    AdditionalKey,
    Chars,
    Members,
    OneOf,
    Prose,
    Raw,
    Repeat,
    Rule,
    RuleNode,
    Shared,
    Value,
    identity,
    in_order,
    map_children,
    maybe,
    one_of,
    prepend_text,
    schema_with_grammar,
    seq,
)
from ferrule.rules.rule import Seq as RuleSeq
from ferrule.rules.rule import Text as Exactly
from ferrule.schema.notation import JSON, OBJECT
from ferrule.schema.object_members import additional_counts, additional_schema, listed_names, member_schema
from ferrule.schema.value_decoder import types_allowed
from ferrule.wire.format import Format, encoding_of
from ferrule.wire.node import (
    Args,
    Calls,
    Envelope,
    Fields,
    Free,
    HeaderId,
    Item,
    Keyed,
    Lit,
    Node,
    Seq,
    Slot,
    Space,
    Think,
)
from ferrule.wire.parse_plan import LiteralMeaning, first_of, is_marker, opening_texts, plan_of
from ferrule.wire.tape import MAX_NAME, stops_for

_ALNUM = Chars((("a", "z"), ("A", "Z"), ("0", "9")))
_DIGITS = Repeat(Chars((("0", "9"),)), 1, 6)
_LINES = (Exactly("\n  "), Exactly("\n    "))
"""What models write before a member of a call's JSON, if each has a line of its own."""
_IDS: dict[str, RuleNode] = {
    "any": Repeat(Chars((("a", "z"), ("A", "Z"), ("0", "9"), ("_", "_"), ("-", "-"))), 1, 40),
    "nine_alnum": Repeat(_ALNUM, 9, 9),
    "ten_lower": Repeat(Chars((("a", "z"), ("0", "9"))), 10, 10),
    "counter": _DIGITS,
    "function_counter": _DIGITS,
}


class ReasoningMode(StrEnum):
    """ON: the model may reason first. OFF: it may not. PREFILLED: the prompt has already opened the reasoning."""

    ON = "on"
    OFF = "off"
    PREFILLED = "prefilled"


def bind(
    format: Format,
    tools: Iterable[ToolDefinition],
    choice: ToolChoice = ToolChoice.auto(),
    *,
    parallel: bool = True,
    reasoning: ReasoningMode = ReasoningMode.ON,
    response_schema: Mapping[str, Any] | None = None,
    any_order: bool = False,
) -> Rule:
    """Return the rule for one reply. `response_schema` constrains the text of an answer without calls.

    `any_order` allows JSON arguments in any order, if the target can express that. Otherwise they come in the schema's
    order; names that can only come next then need not be generated.
    """
    all_tools = tuple(tools)
    chosen = choice.select_tools(all_tools)
    binder = _Binder(format, chosen, all_tools, is_parallel=parallel, any_order=any_order)
    rule = binder.rule(choice.mode, reasoning, response_schema)
    return _rule_in_any_order(rule) if any_order else rule


def _with_grammar(tool: ToolDefinition) -> ToolDefinition:
    """A custom tool with its grammar in its parameters, where the walks over schemas find it."""
    if tool.input_grammar is None:
        return tool
    return replace(tool, parameters=schema_with_grammar(tool.parameters, CUSTOM_INPUT, tool.input_grammar))


@dataclass(frozen=True, slots=True)
class _CallRule:
    """What one tool's calls may be. The format is kept, because its `id` is part of the key."""

    node: RuleNode
    format: Format


# Measured: an argument takes up to 3 kB in a format that writes each between tags of its own, and 1 kB in one of JSON.
# The parameters themselves take about ten times their text.
_CALL_RULES: ToolCache[_CallRule] = ToolCache(
    lambda parameters, _: ENTRY_BYTES + 10 * len(dumps(parameters)) + 3_000 * len(parameters.get("properties") or ())
)
"""The rules of recently offered tools: if one tool of a set changes, only that tool is bound again."""


class _Binder:
    def __init__(
        self,
        format: Format,
        tools: tuple[ToolDefinition, ...],
        all_tools: tuple[ToolDefinition, ...],
        *,
        is_parallel: bool,
        any_order: bool,
    ) -> None:
        self._format = format
        self._tools = tools
        self._is_parallel = is_parallel
        self._any_order = any_order
        self._names = _names(format, all_tools)
        self._markers = tuple(sorted({*_markers(format), *self._names}))

    def rule(self, mode: ChoiceMode, reasoning: ReasoningMode, schema: Mapping[str, Any] | None) -> Rule:
        calls = self._format.calls
        reasoning_rule = self._reasoning(reasoning)
        tokens = self._format.tokens
        if mode is ChoiceMode.NONE or not self._tools:
            return Rule(seq(reasoning_rule, self._answer(schema)), tokens=tokens)
        if mode is ChoiceMode.REQUIRED:
            return Rule(seq(reasoning_rule, self._calls(calls)), tokens=tokens)
        # Text may not hold an offered name where the name makes it a call. If the rule did not allow line breaks there,
        # a model that writes them would be masked away from the name, to one that it did not mean.
        calls_rule = self._calls(calls, in_lines=calls.only_offered)
        answer = self._answer(schema)
        # Free text before the calls would let a reply begin with text that the schema forbids.
        with_calls = calls_rule if calls.only_offered or schema is not None else self._around(calls, calls_rule)
        start = seq(reasoning_rule, OneOf((answer, with_calls)))
        triggers = () if calls.only_offered else opening_texts(calls)[:1]
        return Rule(start, triggers if schema is None else (), calls_rule if triggers else None, tokens)

    def _reasoning(self, mode: ReasoningMode) -> RuleNode:
        think = next((item for item in self._format.reply.items if isinstance(item, Think)), None)
        if mode is ReasoningMode.OFF or think is None:
            if mode is ReasoningMode.PREFILLED:
                raise FormatError(
                    f"{self._format.name} has no reasoning markers, so a prompt cannot have opened reasoning",
                    hint="Bind with reasoning off, or choose the format of the model's chat template.",
                )
            return Exactly("")
        excludes = tuple({text.strip() for text in think.close.spellings} | set(self._call_markers()))
        body = seq(Prose(tuple(sorted(excludes))), think.close.canonical, self._between())
        return body if mode is ReasoningMode.PREFILLED else maybe(seq(think.open.canonical, body))

    def _call_markers(self) -> tuple[str, ...]:
        openings = (text.strip() for text in opening_texts(self._format.calls) if is_marker(text))
        return (*openings, *self._names)

    def _answer(self, schema: Mapping[str, Any] | None) -> RuleNode:
        """The text of a reply without calls."""
        texts = [item for item in self._format.reply.items if isinstance(item, Free)]
        if schema is not None:
            return _wrap(texts[-1], Value(schema, schema))
        # Sorted, so that every process builds the same rule.
        first = sorted({text[0] for text in opening_texts(self._format.calls)})
        bare = "".join(first) if self._format.calls.only_offered else ""
        return _wrap(texts[-1], Prose(self._markers, bare))

    def _around(self, calls: Calls, calls_rule: RuleNode) -> RuleNode:
        """Calls with the text that the format allows before and after them."""
        items = self._format.reply.items
        place = next(number for number, item in enumerate(items) if item is calls)
        before = self._text_of(items[:place])
        after = self._text_of(items[place + 1 :]) if self._format.reply.is_ordered else None
        whole = calls_rule if after is None else seq(calls_rule, after)
        if before is None:
            return whole
        glue = calls.glue.canonical if calls.glue else ""
        return OneOf((seq(before, glue, self._between(), whole), whole))

    def _text_of(self, items: tuple[Item, ...]) -> RuleNode | None:
        free = next((item for item in items if isinstance(item, Free)), None)
        return None if free is None else _wrap(free, Prose(self._markers))

    def _between(self) -> str:
        between = self._format.reply.between
        return between.canonical if between else ""

    def _calls(self, calls: Calls, *, in_lines: bool = False) -> RuleNode:
        if in_lines and isinstance(calls.call, Envelope):
            envelope = calls.call
            forms = self._call_rules(True, lambda tool: self._members(envelope, tool, in_lines=True))
            one = seq("{", one_of(Exactly(""), *_LINES), one_of(*forms))
        else:
            one = one_of(*self._call_rules(False, lambda tool: self._call(calls.call, tool)))
        most = calls.max_calls if self._is_parallel else 1
        many = one if most == 1 else Repeat(one, 1, most, self._between() or calls.sep.canonical)
        open_text = calls.open.canonical if calls.open else ""
        close_text = calls.close.canonical if calls.close else ""
        return seq(open_text, many, close_text)

    def _call_rules(self, in_lines: bool, call: Callable[[ToolDefinition], RuleNode]) -> Iterator[RuleNode]:
        """The rule of each tool's calls. It is the same object in every rule of this format with this tool."""
        format, any_order = self._format, self._any_order

        def make(tool: ToolDefinition) -> _CallRule:
            node = _with_shared_end(call(_with_grammar(tool)))
            return _CallRule(_in_any_order(node) if any_order else node, format)

        for tool in self._tools:
            rest = (id(format), in_lines, any_order, tool.input_grammar)
            yield _CALL_RULES.get(tool, partial(make, tool), rest).node

    def _call(self, node: Node, tool: ToolDefinition) -> RuleNode:
        match node:
            case Lit() | Space():
                return Exactly(node.canonical)
            case Seq(parts):
                return seq(*(self._call(part, tool) for part in parts))
            case Slot.NAME:
                return Exactly(tool.name)
            case Slot.ID:
                return _IDS[self._format.ids.name]
            case HeaderId(prefix, sep):
                return seq(f"{prefix}{tool.name}{sep}", _IDS[self._format.ids.name])
            case Args():
                return _arguments(node, tool)
            case Envelope():
                return seq("{", self._members(node, tool))
            case Keyed():
                return seq("{" + dumps(tool.name) + ": ", _json(tool), "}")
            case Fields():
                return _fields(node, tool)
            case _:
                raise FormatError(f"a call of {self._format.name} cannot contain {node}")

    def _members(self, node: Envelope, tool: ToolDefinition, *, in_lines: bool = False) -> RuleNode:
        """What follows the opening brace. `in_lines` allows every member, and the closing brace, on its own line."""
        parts: list[RuleNode | str] = []
        for entry in node.entries:
            if parts:
                parts += [",", one_of(Exactly(" "), *_LINES)] if in_lines else [", "]
            parts.append(dumps(entry.key) + ": ")
            match entry.slot:
                case Slot.NAME:
                    parts.append(dumps(tool.name))
                case Slot.ARGUMENTS:
                    parts.append(_json(tool))
                case _:
                    parts.append(seq('"', _IDS[self._format.ids.name], '"'))
        return seq(*parts, *([maybe(Exactly("\n"))] if in_lines else []), "}")


def _with_shared_end(call: RuleNode) -> RuleNode:
    """Split a call into its leading text, which contains the tool's name, and the rest, which rules can share."""
    match call:
        case RuleSeq((Exactly() as lead, *rest)) if isinstance(rest[-1], Exactly | Value | Members):
            return RuleSeq((lead, Shared(seq(*rest))))
        case _:
            return call


def _rule_in_any_order(rule: Rule) -> Rule:
    return replace(rule, start=_in_any_order(rule.start), triggered=rule.triggered and _in_any_order(rule.triggered))


def _in_any_order(node: RuleNode) -> RuleNode:
    """The node with `any_order` in its values; the same node if it has it already."""
    match node:
        case Value():
            return node if node.any_order else replace(node, any_order=True)
        case Shared(inner):
            relaxed = _in_any_order(inner)
            return node if relaxed is inner else Shared(relaxed)
        case _:
            return map_children(node, _in_any_order)


def _markers(format: Format) -> tuple[str, ...]:
    """What free text may not contain: every text that the parser reads as structure.

    A fence only quotes code, and an opening that requires an offered name is prose without one. Both are allowed.
    """
    markers: set[str] = set()
    for text, actions in plan_of(format).text_mode.actions.items():
        first = actions[0]
        quotes = first.meaning is LiteralMeaning.FENCE or (isinstance(first.item, Calls) and first.item.only_offered)
        if is_marker(text) and not quotes:
            markers.add(text.strip())
    return tuple(sorted(markers))


def _names(format: Format, tools: tuple[ToolDefinition, ...]) -> tuple[str, ...]:
    """What free text may not contain in a format without markers, where a tool's name makes text a call."""
    if not format.calls.only_offered:
        return ()
    is_python = encoding_of(format) == "Python"
    return tuple(f"{tool.name}(" if is_python else dumps(tool.name) for tool in tools)


def _wrap(free: Free, body: RuleNode) -> RuleNode:
    return seq(free.open.canonical if free.open else "", body, free.close.canonical if free.close else "")


def _json(tool: ToolDefinition) -> RuleNode:
    return Value(tool.parameters, tool.parameters)


def _arguments(node: Args, tool: ToolDefinition) -> RuleNode:
    if node.notation is JSON and node.root is OBJECT:
        return _json(tool)
    return Members(tool.parameters, node.notation, node.opener, node.root, node.sorts_keys)


def _fields(node: Fields, tool: ToolDefinition) -> RuleNode:
    """One element after another in the schema's order; those that are not required are optional.

    Additional ones follow if they are allowed.
    """
    builder = _FieldBuilder(node, tool)
    names, sep, required = listed_names(tool.parameters), node.sep.canonical, {*tool.required}
    elements = [(name in required, builder.field(name, member_schema(tool.parameters, name))) for name in names]
    additional = additional_schema(tool.parameters)
    if additional is None:
        return in_order(elements, sep, identity)
    other = builder.field(None, additional)
    counts = additional_counts(tool.parameters)
    return in_order(elements, sep, identity, Repeat(prepend_text(sep, other), *counts), Repeat(other, *counts, sep))


class _FieldBuilder:
    """Builds the elements of one tool's arguments. What is the same for all of them is looked up once."""

    def __init__(self, node: Fields, tool: ToolDefinition) -> None:
        parts = node.field.parts
        self._node = node
        self._tool = tool
        self._key, self._at = parts.index(Slot.KEY), parts.index(Slot.VALUE)
        self._key_ends = first_of(parts[self._key + 1 :]) or ()
        self._closers = _closers(node)
        self._markups: dict[str, tuple[str, str, str]] = {}

    def field(self, name: str | None, schema: Any) -> RuleNode:
        """The element of an argument; without a name, of any argument that is not listed."""
        node, parameters = self._node, self._tool.parameters
        if not node.kinds:
            return self._element(name, "", self._raw(schema))
        options: list[RuleNode] = []
        allowed = types_allowed(schema, parameters)
        for kind in node.kinds:
            types = allowed & set(kind.types)
            if not types:
                continue
            typed = schema if types == allowed else {"allOf": [schema, {"type": sorted(types)}]}
            value = self._raw(typed) if kind.is_raw else Value(typed, parameters, JSON, self._closers)
            options.append(self._element(name, kind.word, value))
        return one_of(*options)

    def _raw(self, schema: Any) -> RuleNode:
        """A raw value. If the family quotes values that contain markup, it is either plain or quoted as a whole."""
        node, parameters = self._node, self._tool.parameters
        if node.quote is None:
            return Raw(schema, parameters, self._closers)
        open_quote, close_quote = node.quote
        plain = Raw(schema, parameters, (*self._closers, *node.quote_when))
        return OneOf((plain, seq(open_quote, Raw(schema, parameters, (close_quote,)), close_quote)))

    def _element(self, name: str | None, kind: str, value: RuleNode) -> RuleNode:
        begin, end, after = self._markup(kind)
        if name is not None:
            _check_name(name, self._key_ends)
            return seq(begin + name + end, value, after)
        name_text = Prose(_name_ends(self._node.field.parts[self._key + 1 :]), at_most=MAX_NAME)
        return seq(AdditionalKey(begin, name_text, end, listed_names(self._tool.parameters)), value, after)

    def _markup(self, kind: str) -> tuple[str, str, str]:
        """What is written before a key, between it and its value, and after the value."""
        if kind not in self._markups:
            parts, key, at = self._node.field.parts, self._key, self._at
            before, between, after = (
                _markup(some, kind) for some in (parts[:key], parts[key + 1 : at], parts[at + 1 :])
            )
            self._markups[kind] = (before, between, after)
        return self._markups[kind]


def _closers(node: Fields) -> tuple[str, ...]:
    closer = node.field.parts[node.field.parts.index(Slot.VALUE) + 1]
    spellings = closer.spellings if isinstance(closer, Lit) else ()
    return tuple(dict.fromkeys(text.strip() for text in spellings))


def _check_name(name: str, ends: tuple[str, ...]) -> None:
    """Refuse a name that the parser would end too early, before anything is generated."""
    if len(name) > MAX_NAME or stops_for(ends).scan(name + ends[0], 0, True).at < len(name):
        raise FormatError(
            f"this format cannot write the argument name {name!r:.80}",
            code="unwritable_name",
            hint="Rename the property: use letters, digits and underscores.",
        )


def _name_ends(parts: tuple[Node, ...]) -> tuple[str, ...]:
    """What an argument's name cannot contain, because the parser ends the name there.

    If a text contains a first character again, the first characters alone: a matcher cannot count up to such a text.
    """
    ends = tuple(dict.fromkeys(text.strip() for text in first_of(parts) or ()))
    firsts = tuple(dict.fromkeys(text[0] for text in ends))
    return firsts if any(first in text[1:] for first in firsts for text in ends) else ends


def _markup(parts: tuple[Node, ...], kind: str) -> str:
    return "".join(part.canonical if isinstance(part, Lit | Space) else kind for part in parts)
