"""Emit a rule as a Lark grammar for llguidance, the reference target.

The problem
-----------
llguidance reads a variant of Lark: rules in lower case, terminals (regular expressions) in upper case, `%json` for a
JSON Schema, `<[id]>` for a special token. A lexer turns the model's bytes into terminals and a parser follows the
rules. The emitted grammar must admit exactly what the renderer writes and the parser reads back, and masks must stay
cheap to compute. Four things make that harder than printing the tree.

JSON arguments
--------------
llguidance has its own JSON Schema compiler, which enforces more keywords than lowering does, so a JSON value becomes
one `%json` line. The compiler refuses a whole grammar for one keyword that it does not support. So the schema is
relaxed first (`relaxation`), then its objects are closed (`closed_objects`). `x-guidance` fixes the separators and
forbids other white space, so that constrained text and rendered text are the same language. The compiler writes members
in the schema's order; with `any_order`, `any_order` emits rules with bit sets in its place. Values that are not JSON,
or that must exclude a text, are lowered to plain nodes (`lowering`).

Special tokens
--------------
A marker such as `<tool_call>` is one special token in some vocabularies and ordinary text in others. If the vocabulary
has a token for it, the grammar names the token. Free text can never contain a special token, so the model cannot write
the same marker with ordinary tokens where the parser would not expect it. This must also hold for texts that the format
itself does not declare as tokens: the matcher forces the special token wherever it reads the same letters, and then
refuses it. So `emit_lark` emits once, searches the grammar for texts that the vocabulary has a token for, and emits
again with these if there are any.

Free text
---------
Free text before a marker is delimited first (`text_delimiters`): `Until` is a lazy rule that stops at the first marker.
If the end is a special token, no lazy rule is needed, because text cannot contain that token. Excluded strings are a
plain regular expression where possible (`text_exclusion`), and otherwise the complement of "contains one of them". The
complement alone is not enough: wherever a marker is nearly complete, the matcher has to prove that no continuation is
left, and it gives up if the text is counted as well.

Lexing
------
The lexer prefers the longest literal. So a separator is joined with the text that follows it (`prepend_text`), and no
literal is the beginning of another one at the same position. Nodes that consist of characters only become one terminal,
because terminals make the matcher fast. A terminal that may be empty confuses the lexer, so an optional repetition
stays outside of the terminal.

Names and caching
-----------------
A name is the hash of its definition. The same text therefore has the same name in every fragment, and a shared part
(one tool's call) is emitted once and cached in `_FRAGMENTS`. If one tool of a set changes, only that tool is emitted
again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any, cast

from ferrule.core.byte_cache import ENTRY_BYTES, ByteCache, byte_cached
from ferrule.core.json_text import dumps
from ferrule.rules.closed_objects import close_objects
from ferrule.rules.lark_reader import START
from ferrule.rules.lowering import Lowering
from ferrule.rules.matcher import too_many_tools
from ferrule.rules.relaxation import relax
from ferrule.rules.repetition import quantifier
from ferrule.rules.rule import (
    AdditionalKey,
    Chars,
    GrammarText,
    OneOf,
    Prose,
    Ref,
    Repeat,
    Rule,
    RuleNode,
    Seq,
    Shared,
    Str,
    Text,
    Until,
    Value,
    holds_grammar,
    map_children,
    prepend_text,
)
from ferrule.rules.simple_schemas import simple_form
from ferrule.rules.text_delimiters import Delimiter
from ferrule.rules.text_grammar import spelling_in, write_grammar
from ferrule.schema.notation import JSON, Escapes, Quote

# Grammar rules for an object with members in any order: each at most once, all required ones present.
#
# llguidance's own schema compiler fixes the order of members to that of the schema. Its grammar rules can carry a set
# of bits, one for each member that is already written. With these bits, every order takes only as many alternatives
# as there are members.

MAX_MEMBERS = 64
_SUPPORTED_KEYWORDS = frozenset(
    {"type", "properties", "required", "additionalProperties", "$defs", "x-guidance"}
    | {"title", "description", "default", "examples", "$schema", "$id", "$comment", "deprecated"}
)


@dataclass(frozen=True, slots=True)
class Member:
    """One member of an object. `schema` is self-contained: it carries the definitions that it refers to."""

    name: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class UnorderedMembers:
    """The members of an object, required ones first. `required` is the number of required members."""

    each: tuple[Member, ...]
    required: int


def members_of(schema: Mapping[str, Any]) -> UnorderedMembers | None:
    """The members of a closed object, or None if any order cannot be expressed for it or makes no difference."""
    properties: Mapping[str, Any] = schema.get("properties") or {}
    if (
        not 2 <= len(properties) <= MAX_MEMBERS
        or schema.get("additionalProperties") is not False
        or not {*schema} <= _SUPPORTED_KEYWORDS
    ):
        return None
    required = frozenset(cast("list[str]", schema.get("required") or ()))
    if not required <= {*properties}:
        return None
    # Every reference points into `$defs` by now, so a member that carries these two keywords is self-contained.
    shared_keywords = {key: schema[key] for key in ("$defs", "x-guidance") if key in schema}
    required_first = sorted(properties.items(), key=lambda pair: pair[0] not in required)
    return UnorderedMembers(
        tuple(Member(name, _standalone_schema(subschema, shared_keywords)) for name, subschema in required_first),
        len(required),
    )


def lines_of(name: str, members: UnorderedMembers, values: list[str]) -> dict[str, str]:
    """The grammar lines, by rule name, of an object. `values` are the rule names of its members' values."""
    return {
        name: f'{name}: "{{" {name}f::0x0 "}}"',
        f"{name}f": f"{name}f::_: {_alternatives(name, members, values, '')}",
        f"{name}r": f"{name}r::_: {_alternatives(name, members, values, ', ')}",
    }


def _alternatives(name: str, members: UnorderedMembers, values: list[str], separator: str) -> str:
    condition = f" %if is_ones([0:{members.required}])" if members.required else ""
    each = (
        f"{dumps(separator + dumps(member.name) + ': ')} {value} {name}r::set_bit({bit}) %if bit_clear({bit})"
        for bit, (member, value) in enumerate(zip(members.each, values, strict=True))
    )
    return " | ".join([f'""{condition}', *each])


def _standalone_schema(schema: Any, shared_keywords: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(schema, Mapping):
        return {**cast("Mapping[str, Any]", schema), **shared_keywords}
    return {**({} if schema else {"not": {}}), **shared_keywords}


Escape = Callable[[str], str]


def text_excluding(markers: Iterable[str], escape: Escape) -> str | None:
    """A regex for whole texts without the markers.

    Returns None if the first character of a marker also occurs later in a marker. That case needs a real automaton.
    """
    nonempty = [marker for marker in markers if marker]
    firsts = "".join(sorted({marker[0] for marker in nonempty}))
    if not nonempty or any(char in firsts for marker in nonempty for char in marker[1:]):
        return None
    other_text = f"[^{escape(firsts)}]*"
    after_prefix = "|".join(
        f"{escape(first)}{_after_prefix([marker[1:] for marker in nonempty if marker[0] == first], firsts, escape)}"
        for first in firsts
        if first not in nonempty
    )
    return f"{other_text}(?:{after_prefix})*" if after_prefix else other_text


def _after_prefix(tails: Sequence[str], firsts: str, escape: Escape) -> str:
    """A regex for what may follow a marker's prefix, up to the next first character: nothing, or diverging text."""
    nexts = "".join(sorted({tail[0] for tail in tails}))
    diverged = f"[^{escape(firsts + nexts)}][^{escape(firsts)}]*"
    continued = [
        escape(char) + _after_prefix([tail[1:] for tail in tails if tail[0] == char], firsts, escape)
        for char in nexts
        if char not in tails
    ]
    return f"(?:{'|'.join([*continued, diverged])})?"


# The separators that the renderer writes, so that constrained and rendered text are the same language.
_JSON_OPTIONS = {"item_separator": ", ", "key_separator": ": ", "whitespace_flexible": False}
_ESCAPES = {
    Escapes.JSON: r"\\(?:[\"\\\/bfnrt]|u[0-9a-fA-F]{4})",
    Escapes.PYTHON: r"\\(?:[\"'\\abfnrtv]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4})",
}
# The escapes in the strings of `%json`: each character that needs one, and no other.
_LLGUIDANCE_ESCAPES = r"\\(?:[\"\\bfnrt]|u00(?:[01][0-9a-fA-F]|7[fF]))"


@dataclass(frozen=True, slots=True)
class LarkPair:
    """One rule for two matchers: one that knows the characters alone, and one that knows a model's special tokens."""

    of_characters: str
    of_tokens: str


def emit_lark(rule: Rule, specials: Mapping[str, int] | None = None, ends: Iterable[int] = ()) -> str:
    """Emit a rule as a Lark grammar.

    Args:
        rule: The rule.
        specials: The texts for which the tokenizer has a special token, with the token's id.
        ends: Tokens that may follow the complete reply: those that end a turn, for a matcher that knows only one.
    """
    special_ids = specials or {}
    used_specials = _used_specials(rule, special_ids)
    start, emitter = _emit(rule, used_specials)
    return _with_unused_specials(rule, special_ids, used_specials, start, emitter, ends)


def emit_lark_pair(rule: Rule, specials: Mapping[str, int], ends: Iterable[int] = ()) -> LarkPair:
    """Emit a rule without special tokens and with them. What contains none is emitted once."""
    plain_start, plain = _emit(rule, {})
    used_specials = _used_specials(rule, specials)
    start, emitter = _emit(rule, used_specials, plain) if used_specials else (plain_start, plain)
    of_tokens = _with_unused_specials(rule, specials, used_specials, start, emitter, ends)
    return LarkPair(_grammar(plain_start, plain), of_tokens)


def _used_specials(rule: Rule, specials: Mapping[str, int]) -> dict[str, int]:
    return {text: specials[text] for text in rule.tokens if text in specials}


def _with_unused_specials(
    rule: Rule, specials: Mapping[str, int], used: Mapping[str, int], start: str, emitter: _Emitter, ends: Iterable[int]
) -> str:
    # The vocabulary may have a special token for a text that the format does not declare as one. The matcher forces
    # that token where it reads the same letters, and then refuses it, so the grammar must name it.
    if extra := _texts_in_grammar(specials.keys() - used.keys(), (start, *emitter.lines.values())):
        start, emitter = _emit(rule, {text: specials[text] for text in (*used, *extra)}, emitter)
    if end_tokens := " | ".join(f"<[{token}]>" for token in ends):
        start = f"({start}) ({end_tokens})?"
    return _grammar(start, emitter)


def _grammar(start: str, emitter: _Emitter) -> str:
    return "\n".join([f"start: {start}", *emitter.lines.values(), ""])


def _emit(rule: Rule, specials: Mapping[str, int], before: _Emitter | None = None) -> tuple[str, _Emitter]:
    emitter = _Emitter(specials, before=before)
    return emitter.body(rule.start), emitter


def _texts_in_grammar(texts: Iterable[str], lines: Iterable[str]) -> list[str]:
    """The texts that occur in the grammar, as a literal or in a regex, other than in what free text excludes.

    A vocabulary has hundreds of special tokens, most of which begin alike, and a grammar may have megabytes. So their
    beginnings are searched first, each once.
    """
    grammar_text = "\n".join(line for line in lines if not line.startswith(_FREE_TEXT))
    beginnings: dict[str, bool] = {}

    def occurs(written: str) -> bool:
        beginning = written[:_BEGINNING]
        if beginning not in beginnings:
            beginnings[beginning] = beginning in grammar_text
        return beginnings[beginning] and written in grammar_text

    return sorted(text for text in texts if any(map(occurs, _written_forms(text))))


MAX_LENGTH = 8_000_000
"""The most characters of the parts of a grammar.

Measured with llguidance 1.9: it compiles grammars of up to 3.4 million characters, which takes it 2 s, and refuses all
that have more than 6.7 million. It takes 12 s to refuse one of 11 million, that of 10,000 tools.
"""
_BEGINNING = 4
_FREE_TEXT = "F"
"""The first letter of the names of terminals for free text."""


# The texts come from vocabularies, not from requests.
@lru_cache(maxsize=4096)
def _written_forms(special: str) -> tuple[str, str]:
    return _quote(special)[1:-1], _escape(special)


def schema_for_llguidance(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema that llguidance compiles. Its `x-guidance` fixes our separators and replaces the schema's own."""
    compilable = simple_form(schema, closes=True) or close_objects(relax(schema).schema)
    return {**compilable, "x-guidance": _JSON_OPTIONS}


@dataclass(frozen=True, slots=True)
class _Fragment:
    """A shared part: the name of its rule, and all lines that it needs."""

    name: str
    lines: Mapping[str, str]

    @property
    def size(self) -> int:
        return sum(len(name) + len(line) + 160 for name, line in self.lines.items())


_FRAGMENTS: ByteCache[tuple[str, tuple[tuple[str, int], ...]], _Fragment] = ByteCache(
    lambda key, fragment: ENTRY_BYTES + fragment.size + sum(len(text) + 64 for text, _ in key[1])
)
"""One for each recently offered tool: if one tool of a set changes, only that tool is emitted again."""


class _Emitter:
    """Emits nodes and collects their definitions in `lines`, by name.

    A name is derived from its definition, so fragments that are emitted separately use the same name for the same text.
    `before` emitted the same rule with fewer special tokens.
    """

    def __init__(
        self,
        specials: Mapping[str, int],
        prefix: str = "",
        parent: _Emitter | None = None,
        before: _Emitter | None = None,
    ) -> None:
        self._specials = specials
        self._before = before
        self._lowering = Lowering(prefix, parent._lowering.scalars if parent else None, has_grammars=True)
        self.lines: dict[str, str] = {}
        self._length = 0
        self._schemas: dict[int, str] = {}
        self._shared_fragments: dict[int, tuple[Shared, _Fragment]] = {}
        # Every tool uses the same number nodes: the emitter of a fragment continues with what its parent knows.
        self._regex_cache: dict[int, tuple[RuleNode, str | None]] = parent._regex_cache if parent else {}
        self._strings: dict[int, tuple[RuleNode, str, str]] = parent._strings if parent else {}
        self._delimiter: Delimiter = parent._delimiter if parent else Delimiter()
        self._specials_key = parent._specials_key if parent else tuple(specials.items())
        self._split = parent._split if parent else _splitter(specials)

    def body(self, node: RuleNode) -> str:
        rendered = self._node(self._prepare(node))
        for name, definition in self._lowering.definitions.items():
            self.lines[name] = f"{name}: {self._node(self._delimiter.delimit(definition))}"
        return rendered

    def _shared(self, node: Shared) -> str:
        """The rule name of a shared part. A rule contains a part in several places; it is stored to keep its `id`."""
        known = self._shared_fragments.get(id(node))
        if known is not None:
            return known[1].name
        fragment = self._cached_fragment(node)
        # Fragments have lines in common, which count once.
        self._length += sum(len(line) for name, line in fragment.lines.items() if name not in self.lines)
        self.lines.update(fragment.lines)
        if self._length > MAX_LENGTH:
            raise too_many_tools(f"it has more than {MAX_LENGTH:,} characters")
        self._shared_fragments[id(node)] = (node, fragment)
        return fragment.name

    def _fragment_before(self, node: Shared) -> _Fragment | None:
        """The fragment that was emitted with fewer special tokens, if it contains the text of none of the others."""
        if self._before is None or id(node) not in self._before._shared_fragments:
            return None
        _, fragment = self._before._shared_fragments[id(node)]
        added = self._specials.keys() - self._before._specials.keys()
        return None if _texts_in_grammar(added, fragment.lines.values()) else fragment

    def _cached_fragment(self, node: Shared) -> _Fragment:
        key = (node.fingerprint, self._specials_key)
        return _FRAGMENTS.get(key, lambda: self._fragment_before(node) or self._fragment(node.fingerprint, node.node))

    def _fragment(self, fingerprint: str, node: RuleNode) -> _Fragment:
        inner = _Emitter(self._specials, f"c{fingerprint}_", self)
        name = f"c{fingerprint}"
        inner.lines[name] = f"{name}: {inner.body(node)}"
        return _Fragment(name, inner.lines)

    def _prepare(self, node: RuleNode) -> RuleNode:
        return self._delimiter.delimit(self._lower_all_but_json(node))

    def _lower_all_but_json(self, node: RuleNode) -> RuleNode:
        """Lower every value except JSON that llguidance's own schema compiler accepts."""
        match node:
            case Text() | Shared():
                return node
            case Seq() | OneOf() | Repeat():
                return map_children(node, self._lower_all_but_json)
            case Value(schema, root, notation, excludes) if notation is JSON and not excludes and schema is root:
                return self._lowering.lower(node) if holds_grammar(schema) else node
            case _:
                return self._lowering.lower(node)

    def _node(self, node: RuleNode) -> str:
        # The three kinds that a large tool set has ten thousand of come first.
        match node:
            case Text():
                return self._literal(node.text)
            case Ref():
                return node.name
            case Seq():
                return " ".join(map(self._node, node.parts)) or '""'
            case OneOf():
                return "(" + " | ".join(map(self._node, node.options)) + ")"
            case Repeat():
                return self._repeat(node)
            case Value():
                return self._json(node.schema, node.any_order)
            case Until():
                return self._until(node)
            case Prose(excludes, not_first, at_most):
                return self._free_text(_prose(excludes, not_first, at_most))
            case GrammarText():
                return self._grammar_text(node)
            case Str():
                return self._string(node)
            case Chars():
                return self._terminal(f"/{_class(node)}/")
            case AdditionalKey():
                return self._additional_key(node)
            case Shared():
                return self._shared(node)
            case _:
                raise AssertionError(f"{node} was not lowered")

    def _json(self, schema: Any, any_order: bool) -> str:
        """The rule name of a schema. A rule holds one schema in several places and keeps it alive, so `id` is a key."""
        if id(schema) not in self._schemas:
            compilable = schema_for_llguidance(schema)
            members = members_of(compilable) if any_order else None
            self._schemas[id(schema)] = (
                self._json_rule(compilable) if members is None else self._any_order_rule(compilable, members)
            )
        return self._schemas[id(schema)]

    def _json_rule(self, schema: Mapping[str, Any]) -> str:
        return self._name_for("j", f"%json {dumps(schema)}")

    def _any_order_rule(self, schema: Mapping[str, Any], members: UnorderedMembers) -> str:
        name = f"o{blake2b(dumps(schema).encode('utf-8', 'surrogatepass'), digest_size=8).hexdigest()}"
        self.lines.update(lines_of(name, members, [self._json_rule(member.schema) for member in members.each]))
        return name

    def _literal(self, text: str) -> str:
        if self._split is None:
            return _quote(text)
        pieces = self._split.split(text)
        rendered = [
            f"<[{self._specials[piece]}]>" if piece in self._specials else _quote(piece) for piece in pieces if piece
        ]
        return " ".join(rendered) or '""'

    def _repeat(self, node: Repeat) -> str:
        if node.at_most == 0:
            return '""'
        # A terminal that may be empty confuses the lexer, so an optional repetition stays outside of the terminal.
        inner = self._regex_once(node if node.at_least else node.node)
        if inner is not None and not node.sep:
            name = self._terminal(f"/{inner}/")
            return name if node.at_least else f"{name}{quantifier(0, node.at_most)}"
        body = self._node(node.node)
        if not node.sep:
            return f"({body}){quantifier(node.at_least, node.at_most)}"
        many = body
        if node.at_most != 1:
            again = self._name_for("r", self._node(prepend_text(node.sep, node.node)))
            more = None if node.at_most is None else node.at_most - 1
            many = f"{body} {again}{quantifier(max(0, node.at_least - 1), more)}"
        return f"({many})" if node.at_least else f"({many})?"

    def _string(self, node: Str) -> str:
        """The name of a string's terminal. Every tool uses the same few: the node is stored to keep its `id`."""
        known = self._strings.get(id(node))
        if known is None:
            name = self._terminal(_string(node))
            self._strings[id(node)] = (node, name, self.lines[name])
            return name
        _, name, line = known
        self.lines.setdefault(name, line)
        return name

    def _regex_once(self, node: RuleNode) -> str | None:
        """`_regex`, cached: every tool uses the same number nodes. Storing the node keeps its `id` valid."""
        if id(node) not in self._regex_cache:
            self._regex_cache[id(node)] = (node, self._regex(node))
        return self._regex_cache[id(node)][1]

    def _regex(self, node: RuleNode) -> str | None:
        """A regex for a node that consists of characters only, else None. Terminals make the matcher fast."""
        match node:
            case Text(text):
                return None if self._split and self._split.search(text) else _escape(text)
            case Chars():
                return _class(node)
            case Repeat(inner, at_least, at_most, sep):
                body = self._regex_once(inner)
                return None if body is None or sep else f"(?:{body}){quantifier(at_least, at_most)}"
            case Seq(parts):
                bodies = self._regexes(parts)
                return None if bodies is None else "".join(bodies)
            case OneOf(options):
                bodies = self._regexes(options)
                return None if bodies is None else "(?:" + "|".join(bodies) + ")"
            case _:
                return None

    def _regexes(self, nodes: tuple[RuleNode, ...]) -> list[str] | None:
        bodies: list[str] = []
        for node in nodes:
            body = self._regex(node) if isinstance(node, Text) else self._regex_once(node)
            if body is None:
                return None
            bodies.append(body)
        return bodies

    def _until(self, node: Until) -> str:
        free_text = _prose(node.excludes, node.not_first, node.at_most)
        before, special = self._before_special(node.end)
        if special is None:
            return self._name_for("u", f"{self._free_text(free_text)} {_quote(node.end)}", options="[lazy]")
        # Text cannot contain a special token, so the token ends it. The text must only end in what precedes the token.
        until = self._terminal(f"{free_text} & /(?s:.*){_escape(before)}/") if before else self._free_text(free_text)
        return f"{until} {self._literal(special)}"

    def _grammar_text(self, node: GrammarText) -> str:
        written = write_grammar(node.grammar, spelling_in(node.quote, node.excludes))
        before, special = self._before_special(node.end)
        after = [] if special is None else [self._literal(special)]
        if written.regex is None:
            described = dumps([node.grammar.as_json(), node.quote and node.quote.open])
            prefix = f"g{blake2b(described.encode('utf-8', 'surrogatepass'), digest_size=8).hexdigest()}"
            self.lines.update(written.lines(prefix))
            # The end is read character by character, because the text may begin like it.
            return " ".join([f"{prefix}_{START}", *(f"/{_escape(char)}/" for char in before), *after])
        text = self._free_text(f"/{written.regex}/" + (f" & {_excluding(node.excludes)}" if node.excludes else ""))
        if not node.end:
            return text
        if special is None:
            return self._name_for("u", f"{text} {_quote(node.end)}", options="[lazy]")
        return " ".join([self._terminal(f"{text} {_quote(before)}") if before else text, *after])

    def _additional_key(self, node: AdditionalKey) -> str:
        """One terminal, so that the lexer tells the key from the listed ones by its name and not by what begins it."""
        if not isinstance(node.name, Prose):
            name = _string_regex(node.name) if isinstance(node.name, Str) else self._regex(node.name)
            begin, end = _escape(node.begin), _escape(node.end)
            excludes = node.name.excludes if isinstance(node.name, Str) else ()
            key = f"/{begin}{name}{end}/" + (f" & {_excluding(excludes)}" if excludes else "")
            return self._terminal(key + _other_than(node.listed, begin, end))
        text = self._free_text(_prose(node.name.excludes, "", node.name.at_most) + _other_than(node.listed))
        pieces = self._split.split(node.begin) if self._split else [node.begin]
        before, begin = self._literal("".join(pieces[:-1])), pieces[-1]
        end, special = self._before_special(node.end)
        if special is None:
            key = self._name_for("u", f"{_quote(begin)} {text} {_quote(end)}", options="[lazy]")
        else:
            key = f"{self._terminal(f'{_quote(begin)} {text} {_quote(end)}')} {self._literal(special)}"
        return key if before == '""' else f"{before} {key}"

    def _before_special(self, end: str) -> tuple[str, str | None]:
        positions = [(end.find(text), text) for text in self._specials if text in end]
        if not positions:
            return end, None
        at, _ = min(positions)
        return end[:at], end[at:]

    def _free_text(self, body: str) -> str:
        """A terminal that does not change with the special tokens: text contains none of them, whatever it excludes."""
        return self._name_for(_FREE_TEXT, body)

    def _terminal(self, body: str) -> str:
        return self._name_for("T", body)

    def _name_for(self, prefix: str, body: str, options: str = "") -> str:
        definition = f"{options}: {body}"
        name = prefix + blake2b(definition.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest().upper()
        # In Lark, names in capitals are terminals and other names are rules.
        name = name if prefix.isupper() else name.lower()
        self.lines.setdefault(name, name + definition)
        return name


def _splitter(specials: Mapping[str, int]) -> re.Pattern[str] | None:
    """Splits a text at the special tokens in it."""
    return re.compile("(" + "|".join(map(re.escape, specials)) + ")") if specials else None


def _prose(excludes: tuple[str, ...], not_first: str, at_most: int | None) -> str:
    first = f"[^{''.join(map(_escape, not_first))}]" if not_first else ""
    count = "*" if at_most is None else f"{{0,{at_most}}}"
    body = f"/(?:{first}(?s:.){count})?/" if first else f"/(?s:.){count}/"
    return body if not excludes else f"{body} & {_excluding(excludes)}"


# Measured: the regex takes up to thirty characters for each one of the markers.
@byte_cached(lambda arguments, regex: ENTRY_BYTES + len(regex) + sum(map(len, arguments[0])))
def _excluding(markers: tuple[str, ...]) -> str:
    """A regex for whole texts without the markers. Cached: every argument of every tool excludes the same ones."""
    regex = text_excluding(markers, _escape)
    return f"/{regex}/" if regex else f"~/(?s:.*)(?:{'|'.join(map(_escape, markers))})(?s:.*)/"


def _other_than(texts: tuple[str, ...], begin: str = "", end: str = "") -> str:
    """Excludes the texts themselves, each between two regexes; texts that only contain one of them stay."""
    return f" & ~/{begin}(?:{'|'.join(map(_escape, texts))}){end}/" if texts else ""


def _string(node: Str) -> str:
    body = f"/{_string_regex(node)}/"
    return body if not node.excludes else f"{body} & {_excluding(node.excludes)}"


def _string_regex(node: Str) -> str:
    quote: Quote = node.quote
    stop = _escape(quote.close[0])
    # Without its opening quote it is the rest of a string of `%json` (`rules.skip`), and admits the same characters.
    char = (
        rf"(?:[^{stop}\\\x00-\x1f]|{_ESCAPES[quote.escapes]})"
        if quote.open
        else rf"(?:[^{stop}\\\x00-\x1f\x7f]|{_LLGUIDANCE_ESCAPES})"
    )
    return f"{_escape(quote.open)}{char}{quantifier(node.at_least, node.at_most)}{_escape(quote.close)}"


def _class(node: Chars) -> str:
    ranges = "".join(_escape(a) if a == b else f"{_escape(a)}-{_escape(b)}" for a, b in node.ranges)
    return f"[{'^' if node.negated else ''}{ranges}]"


def _quote(text: str) -> str:
    """A Lark literal. DEL is valid in a JSON string but not in this lexer, so it is escaped."""
    return dumps(text).replace("\x7f", "\\u007f")


def _escape(text: str) -> str:
    """The text escaped for a regex between slashes."""
    return text.translate(_ESCAPE_TABLE)


_ESCAPE_TABLE = str.maketrans(
    {char: f"\\{char}" for char in '\\^$.|?*+()[]{}/-&~"#'} | {"\x7f": r"\x7f", "\n": r"\n", "\r": r"\r", "\t": r"\t"}
)
