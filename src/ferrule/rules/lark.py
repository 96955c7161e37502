"""Lark for llguidance: the reference target. JSON arguments go to its own schema compiler, with separators fixed.

Markers for which the vocabulary has a token are written as that token; free text never contains a special token, so a
marker cannot be spelled out with ordinary ones behind the parser's back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from ferrule.core.json_text import dumps
from ferrule.rules.any_order import FreeMembers, lines_of, members_of
from ferrule.rules.cache import ByteCache
from ferrule.rules.closed_objects import closed
from ferrule.rules.lowering import Lowering
from ferrule.rules.relaxation import widened
from ferrule.rules.repetition import times
from ferrule.rules.rule import (
    Chars,
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
    fingerprint_of,
    prefixed,
    rebuilt,
)
from ferrule.rules.text_delimiters import delimited
from ferrule.rules.text_exclusion import without
from ferrule.schema.notation import JSON, Escapes, Quote

# The spelling that our renderer writes, so that constrained and rendered text are the same language.
_JSON_OPTIONS = {"item_separator": ", ", "key_separator": ": ", "whitespace_flexible": False}
_ESCAPES = {
    Escapes.JSON: r"\\(?:[\"\\\/bfnrt]|u[0-9a-fA-F]{4})",
    Escapes.PYTHON: r"\\(?:[\"'\\abfnrtv]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4})",
}


def emit_lark(rule: Rule, specials: Mapping[str, int] | None = None, ends: Iterable[int] = ()) -> str:
    """The grammar of a rule. `specials` are the texts that the tokenizer has a special token for, with its id.

    `ends` are tokens that may stand after everything: those that end a turn, for a matcher that knows only one of them.
    """
    known = specials or {}
    used = {text: known[text] for text in rule.tokens if text in known}
    start, emitter = _emitted(rule, used)
    # This vocabulary may have a token also for what the format does not call one. The matcher forces that token where
    # it reads the same letters, and then refuses it.
    if more := _spelled(known.keys() - used.keys(), (start, *emitter.lines.values())):
        start, emitter = _emitted(rule, {text: known[text] for text in (*used, *more)})
    if ended := " | ".join(f"<[{token}]>" for token in ends):
        start = f"({start}) ({ended})?"
    return "\n".join([f"start: {start}", *emitter.lines.values(), ""])


def _emitted(rule: Rule, specials: Mapping[str, int]) -> tuple[str, _Emitter]:
    emitter = _Emitter(specials)
    return emitter.body(rule.start), emitter


def _spelled(texts: Iterable[str], lines: Iterable[str]) -> list[str]:
    """Those of the texts that stand somewhere, as a literal or in a regex."""
    written = "\n".join(lines)
    return sorted(text for text in texts if _quoted(text)[1:-1] in written or _escaped(text) in written)


def schema_for_llguidance(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema that its compiler takes, with the options that make its JSON ours, whatever the schema's own say."""
    return {**closed(widened(schema).schema), "x-guidance": _JSON_OPTIONS}


@dataclass(frozen=True, slots=True)
class _Fragment:
    """A shared part: the name it goes by, and every line that it needs."""

    name: str
    lines: Mapping[str, str]

    @property
    def size(self) -> int:
        return sum(map(len, self.lines.values()))


_FRAGMENTS: ByteCache[tuple[str, tuple[tuple[str, int], ...]], _Fragment] = ByteCache(lambda held: held.size)
"""One for each tool that was lately offered, so that a tool set in which one tool changed costs one tool."""


class _Emitter:
    """Writes nodes; `lines` fills up with definitions by name.

    Names are made from what they stand for, so that fragments made apart say the same thing under the same name.
    """

    def __init__(self, specials: Mapping[str, int], prefix: str = "") -> None:
        self._specials = specials
        self._split = re.compile("(" + "|".join(map(re.escape, specials)) + ")") if specials else None
        self._lowering = Lowering(prefix)
        self.lines: dict[str, str] = {}
        self._schemas: dict[int, str] = {}
        self._regulars: dict[int, tuple[RuleNode, str | None]] = {}
        self._fingerprints: dict[int, tuple[RuleNode, str]] = {}

    def body(self, node: RuleNode) -> str:
        written = self._node(self._prepared(node))
        for name, defined in self._lowering.definitions.items():
            self.lines[name] = f"{name}: {self._node(delimited(defined))}"
        return written

    def _shared(self, node: RuleNode) -> str:
        if id(node) not in self._fingerprints:
            self._fingerprints[id(node)] = (node, fingerprint_of(node))
        named = self._fingerprints[id(node)][1]
        fragment = _FRAGMENTS.get((named, tuple(self._specials.items())), lambda: self._fragment(named, node))
        self.lines.update(fragment.lines)
        return fragment.name

    def _fragment(self, named: str, node: RuleNode) -> _Fragment:
        inner = _Emitter(self._specials, f"c{named}_")
        name = f"c{named}"
        inner.lines[name] = f"{name}: {inner.body(node)}"
        return _Fragment(name, inner.lines)

    def _prepared(self, node: RuleNode) -> RuleNode:
        return delimited(self._without_foreign(node))

    def _without_foreign(self, node: RuleNode) -> RuleNode:
        """Everything lowered but JSON that the engine's own schema compiler takes."""
        match node:
            case Value(schema, root, notation, excludes) if notation is JSON and not excludes and schema is root:
                return node
            case Seq() | OneOf() | Repeat():
                return rebuilt(node, self._without_foreign)
            case Shared():
                return node
            case _:
                return self._lowering.lower(node)

    def _node(self, node: RuleNode) -> str:
        match node:
            case Text(text):
                return self._literal(text)
            case Seq(parts):
                return " ".join(map(self._node, parts)) or '""'
            case OneOf(options):
                return "(" + " | ".join(map(self._node, options)) + ")"
            case Repeat():
                return self._repeat(node)
            case Value(schema):
                return self._json(schema, node.any_order)
            case Until():
                return self._until(node)
            case Prose(excludes, not_first, at_most):
                return self._terminal(_prose(excludes, not_first, at_most))
            case Str():
                return self._terminal(_string(node))
            case Chars():
                return self._terminal(f"/{_class(node)}/")
            case Ref(name):
                return name
            case Shared(inner):
                return self._shared(inner)
            case _:
                raise AssertionError(f"{node} was not lowered")

    def _json(self, schema: Any, any_order: bool) -> str:
        """The same schema stands in several places of a rule, which keeps it, so that its identity stays its own."""
        if id(schema) not in self._schemas:
            taken = schema_for_llguidance(schema)
            members = members_of(taken) if any_order else None
            self._schemas[id(schema)] = self._compiled(taken) if members is None else self._freely(taken, members)
        return self._schemas[id(schema)]

    def _compiled(self, schema: Mapping[str, Any]) -> str:
        return self._named("j", f"%json {dumps(schema)}")

    def _freely(self, schema: Mapping[str, Any], members: FreeMembers) -> str:
        name = f"o{blake2b(dumps(schema).encode('utf-8', 'surrogatepass'), digest_size=8).hexdigest()}"
        self.lines.update(lines_of(name, members, [self._compiled(member.schema) for member in members.each]))
        return name

    def _literal(self, text: str) -> str:
        pieces = self._split.split(text) if self._split else [text]
        written = [
            f"<[{self._specials[piece]}]>" if piece in self._specials else _quoted(piece) for piece in pieces if piece
        ]
        return " ".join(written) or '""'

    def _repeat(self, node: Repeat) -> str:
        if node.at_most == 0:
            return '""'
        # A terminal that may be empty confuses the lexer, so the repetition itself stays outside unless it is needed.
        inner = self._cached_regular(node if node.at_least else node.node)
        if inner is not None and not node.sep:
            name = self._terminal(f"/{inner}/")
            return name if node.at_least else f"{name}{times(0, node.at_most)}"
        body = self._node(node.node)
        if not node.sep:
            return f"({body}){times(node.at_least, node.at_most)}"
        many = body
        if node.at_most != 1:
            again = self._named("r", self._node(prefixed(node.sep, node.node)))
            more = None if node.at_most is None else node.at_most - 1
            many = f"{body} {again}{times(max(0, node.at_least - 1), more)}"
        return f"({many})" if node.at_least else f"({many})?"

    def _cached_regular(self, node: RuleNode) -> str | None:
        """The same numbers stand in every tool; the node is kept, so that its identity stays its own."""
        if id(node) not in self._regulars:
            self._regulars[id(node)] = (node, self._regular(node))
        return self._regulars[id(node)][1]

    def _regular(self, node: RuleNode) -> str | None:
        """A regex for a node of characters alone, else None: terminals are what makes the matcher fast."""
        match node:
            case Text(text):
                return None if any(special in text for special in self._specials) else _escaped(text)
            case Chars():
                return _class(node)
            case Repeat(inner, at_least, at_most, sep):
                body = self._regular(inner)
                return None if body is None or sep else f"(?:{body}){times(at_least, at_most)}"
            case Seq(parts):
                bodies = self._regulars_of(parts)
                return None if bodies is None else "".join(bodies)
            case OneOf(options):
                bodies = self._regulars_of(options)
                return None if bodies is None else "(?:" + "|".join(bodies) + ")"
            case _:
                return None

    def _regulars_of(self, nodes: tuple[RuleNode, ...]) -> list[str] | None:
        found: list[str] = []
        for node in nodes:
            body = self._regular(node)
            if body is None:
                return None
            found.append(body)
        return found

    def _until(self, node: Until) -> str:
        free = _prose(node.excludes, node.not_first, node.at_most)
        before, special = self._before_special(node.end)
        if special is None:
            return self._named("u", f"{self._terminal(free)} {_quoted(node.end)}", options="[lazy]")
        # A special token ends free text by itself, because text cannot contain one: the rest must only stand before it.
        ended = f"{free} & /(?s:.*){_escaped(before)}/" if before else free
        return f"{self._terminal(ended)} {self._literal(special)}"

    def _before_special(self, end: str) -> tuple[str, str | None]:
        places = [(end.find(text), text) for text in self._specials if text in end]
        if not places:
            return end, None
        at, _ = min(places)
        return end[:at], end[at:]

    def _terminal(self, body: str) -> str:
        return self._named("T", body)

    def _named(self, prefix: str, body: str, options: str = "") -> str:
        written = f"{options}: {body}"
        name = prefix + blake2b(written.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest().upper()
        # Terminals are told from rules by their capitals.
        name = name if prefix.isupper() else name.lower()
        self.lines.setdefault(name, name + written)
        return name


def _prose(excludes: tuple[str, ...], not_first: str, at_most: int | None) -> str:
    first = f"[^{''.join(map(_escaped, not_first))}]" if not_first else ""
    count = "*" if at_most is None else f"{{0,{at_most}}}"
    body = f"/(?:{first}(?s:.){count})?/" if first else f"/(?s:.){count}/"
    return body if not excludes else f"{body} & {_without(excludes)}"


def _without(marks: tuple[str, ...]) -> str:
    spelled = without(marks, _escaped)
    return f"/{spelled}/" if spelled else f"~/(?s:.*)(?:{'|'.join(map(_escaped, marks))})(?s:.*)/"


def _string(node: Str) -> str:
    quote: Quote = node.quote
    stop = _escaped(quote.close[0])
    char = rf"(?:[^{stop}\\\x00-\x1f]|{_ESCAPES[quote.escapes]})"
    body = f"/{_escaped(quote.open)}{char}{times(node.at_least, node.at_most)}{_escaped(quote.close)}/"
    return body if not node.excludes else f"{body} & {_without(node.excludes)}"


def _class(node: Chars) -> str:
    ranges = "".join(_escaped(a) if a == b else f"{_escaped(a)}-{_escaped(b)}" for a, b in node.ranges)
    return f"[{'^' if node.negated else ''}{ranges}]"


def _quoted(text: str) -> str:
    """A literal, without the one control character that JSON lets stand and this lexer does not."""
    return dumps(text).replace("\x7f", "\\u007f")


def _escaped(text: str) -> str:
    """Text inside a regex between slashes."""
    return text.translate(_ESCAPED)


_ESCAPED = str.maketrans(
    {char: f"\\{char}" for char in '\\^$.|?*+()[]{}/-&~"#'} | {"\x7f": r"\x7f", "\n": r"\n", "\r": r"\r", "\t": r"\t"}
)
