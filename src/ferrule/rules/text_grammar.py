"""Compile the grammar of a custom tool's text into the envelope in which a model family writes that text.

The problem
-----------
A client gives a grammar for a text: Lark, or a regular expression. The model never writes that text alone. In a JSON
envelope it stands inside a string, so a line break is written as a backslash and an n; between tags it stands as it is,
and must not contain the closing tag. The grammar must hold the text after unescaping, and the lexer reads it before.

JSON strings
------------
Escaping maps each character to a text of its own, and no such text begins another one: the characters that need no
escape to themselves, the others to what our renderer writes (`schema.value_text`). So a grammar over characters becomes
one over escaped characters, piece by piece. A literal is escaped. A character class becomes the class without the
characters that need an escape, or the escapes of those that it had: `[^"]` becomes `(?:[[^"]&&[^"\\\\...]]|\\\\n|...)`.
One spelling of each character is allowed, the canonical one, so constrained and rendered text are the same language.
The closing quote belongs to no piece.

Terminals and the lexer
-----------------------
llguidance's lexer looks one byte ahead and never goes back. It divides `/.+/ LF` well in plain text: the line break
ends the terminal. Escaped, the line break begins with a backslash, with which the terminal could continue, and one byte
later it is too late. So the client's terminals are not the lexer's. A grammar in which no rule contains itself is a
regular language: it becomes one terminal, whatever its rules are. In any other grammar each character is a terminal,
and the parser does all the work: slower, and exact. Both mean the same: a text matches if it can be divided in some
way, as in Lark's own Earley parser. Validation after decoding uses the same two forms without escapes.

Raw text
--------
Between tags there are no escapes, and the closing markers are excluded. A regular language is intersected with
"contains no marker", and joined with its end into one lazy terminal, as free text is. llguidance cannot intersect
rules, so for the other grammars it is decided first whether a marker could be written at all, by the pairs of
characters that can be neighbours. If all pairs of some marker can, the grammar is not enforced in this format: the
string is free while decoding, is validated afterwards, and the receipt says so.

What is read
------------
Rules, terminals, literals, regular expressions, ranges, groups, alternatives, the quantifiers `? * + ~n ~n..m {n,m}`,
aliases, priorities and `%import common.X`. Aliases shape a tree and priorities choose between trees: neither changes
which texts match. Everything else is refused by name, before anything is generated. A regular expression is a grammar
with one terminal.

Bounds
------
A definition is at most `MAX_LENGTH` characters long. Its size with repetitions and terminals written out is bounded, as
are nesting and repetition counts. Written out as one terminal it may be larger than that; it then takes the form of
rules. llguidance limits what its lexer may build.
A rule from which no text can come to an end would lead a model into a dead end, so it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any

from ferrule.core.byte_cache import ENTRY_BYTES, byte_cached
from ferrule.core.fault import Fault
from ferrule.core.json_text import dumps
from ferrule.core.text_grammar import TextGrammar
from ferrule.core.tool import CUSTOM_INPUT, ToolDefinition
from ferrule.errors import DefinitionError, FormatError
from ferrule.rules.lark_reader import START, read_lark
from ferrule.rules.matcher import ByteMatcher
from ferrule.rules.repetition import quantifier
from ferrule.rules.text_expression import (
    MAX_WRITTEN_OUT_DEPTH,
    CharClass,
    Choice,
    Expression,
    Literal,
    Name,
    Repetition,
    Sequence,
    SizeCounter,
    Terminal,
    check_size,
    escape_regex,
    members_of,
    parse_anchored_regex,
    refusal,
    too_large,
)
from ferrule.schema.notation import Escapes, Quote
from ferrule.schema.value_text import write_string

MAX_LENGTH = 32_768
"""The most characters of a definition."""
MAX_PASSES = 50
"""How often all rules are looked at, each time with what is known of the rules in them. A chain of rules needs two."""


@dataclass(frozen=True, slots=True)
class ParsedGrammar:
    """The rules by name, without their terminals' names. Every `Name` in them is a rule."""

    rules: dict[str, Expression]


@byte_cached(lambda arguments, parsed: ENTRY_BYTES + 40 * len(arguments[0].definition) + 200 * len(parsed.rules))
def parse_grammar(grammar: TextGrammar) -> ParsedGrammar:
    """Read a grammar. Raises `DefinitionError` with code `grammar_refused` if it cannot be used.

    Example:
        parse_grammar(TextGrammar("lark", 'start: "a" B+\\nB: /[0-9]/'))
    """
    if len(grammar.definition) > MAX_LENGTH:
        raise too_large(f"its definition is longer than {MAX_LENGTH} characters")
    if grammar.syntax == "regex":
        rules: dict[str, Expression] = {START: Terminal(parse_anchored_regex(grammar.definition))}
    else:
        rules = read_lark(grammar.definition)
    check_size("it", *rules.values())
    _check_ends(rules)
    return ParsedGrammar(rules)


def admit_grammar(tool: ToolDefinition) -> None:
    """Refuse a tool whose grammar cannot be used. Raises `DefinitionError` with code `grammar_refused`."""
    if tool.input_grammar is None:
        return
    try:
        _matcher_of(tool.input_grammar)
    except DefinitionError as error:
        raise DefinitionError(f"tool {tool.name!r}: {error.message}", code=error.code, hint=error.hint) from error


def grammar_faults(tool: ToolDefinition, arguments: object) -> tuple[Fault, ...]:
    """What is wrong with the text of a custom tool, for arguments that fit the tool's schema; empty if it matches."""
    grammar = tool.input_grammar
    if grammar is None or not isinstance(arguments, dict):
        return ()
    text: Any = arguments.get(CUSTOM_INPUT, "")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return text_faults(grammar, text) if isinstance(text, str) else ()


def text_faults(grammar: TextGrammar, text: str) -> tuple[Fault, ...]:
    """What is wrong with a text, as messages that a model can act on; empty if it matches the grammar."""
    matcher = _matcher_of(grammar)
    match = matcher.match(text)
    if match.is_complete:
        return ()
    before, rest = text[: match.characters], text[match.characters :]
    line = before.count("\n") + 1
    column = match.characters - (before.rfind("\n") + 1) + 1
    expected = matcher.forced_text(before)
    advice = f"; write {dumps(expected)} there" if expected else ""
    if not rest:
        message = f"ends too early for the tool's grammar, in line {line}{advice}"
    else:
        found = dumps(rest.partition("\n")[0][:40] or "\n")
        message = f"does not match the tool's grammar in line {line} at character {column}: found {found}{advice}"
    return (Fault(f"/{CUSTOM_INPUT}", "grammar", message),)


@byte_cached(lambda arguments, _: 160 * 1024 + 80 * len(arguments[0].definition))
def _matcher_of(grammar: TextGrammar) -> ByteMatcher:
    written = write_grammar(grammar, Spelling({}))
    try:
        if written.regex is not None:
            return ByteMatcher(f"start: /{written.regex}/\n")
        lines = written.lines("g")
        return ByteMatcher("\n".join([f"start: g_{START}", *lines.values(), ""]))
    except FormatError as error:
        raise refusal(error.message[:300], "Correct or simplify the part that the message names.") from error


@dataclass(frozen=True, slots=True)
class Spelling:
    """How the characters of a text are written: the escape of each that needs one, and the texts that end it."""

    escapes: Mapping[str, str] = field(hash=False)
    excludes: tuple[str, ...] = ()

    @property
    def specials(self) -> str:
        return "".join(self.escapes)

    def write(self, text: str) -> str:
        return "".join(self.escapes.get(char, char) for char in text)


@lru_cache(maxsize=16)
def _escapes_in(quote: Quote) -> Mapping[str, str]:
    written = {char: write_string(char, quote) for char in (*map(chr, range(0x80)), "\u2028", "\u2029")}
    bodies = {char: text[len(quote.open) : len(text) - len(quote.close)] for char, text in written.items()}
    return {char: body for char, body in bodies.items() if body != char}


def spelling_in(quote: Quote | None, excludes: tuple[str, ...]) -> Spelling:
    """How a text is written in these quotes, or raw if there are none or they have no escapes."""
    if quote is None:
        return Spelling({}, excludes)
    if quote.escapes is Escapes.NONE:
        return Spelling({}, tuple(dict.fromkeys((quote.close, *excludes))))
    return Spelling(_escapes_in(quote), excludes)


@dataclass(frozen=True, slots=True)
class WrittenGrammar:
    """A grammar over characters as they are written. `regex` is the whole of it if it is a regular language."""

    parsed: ParsedGrammar
    spelling: Spelling
    regex: str | None

    def lines(self, prefix: str) -> dict[str, str]:
        """The rules in Lark, by name; the first is `{prefix}_start`. Each character is a terminal."""
        rules = {f"{prefix}_{name}": node for name, node in self.parsed.rules.items()}
        return {name: f"{name}: {_rule(node, self.spelling, prefix)}" for name, node in rules.items()}

    @property
    def is_holdable(self) -> bool:
        """Whether a target with regular operations admits exactly the texts that contain no excluded text."""
        return self.regex is not None or not _can_hold_marker(self.parsed, self.spelling)


@byte_cached(lambda arguments, _: ENTRY_BYTES + 200 * len(arguments[0].definition))
def write_grammar(grammar: TextGrammar, spelling: Spelling) -> WrittenGrammar:
    """The grammar in a spelling. Raises `DefinitionError` with code `grammar_refused` if it cannot be used."""
    parsed = parse_grammar(grammar)
    whole = _without_rules(parsed)
    return WrittenGrammar(parsed, spelling, None if whole is None else _regex(whole, spelling))


def _without_rules(parsed: ParsedGrammar) -> Expression | None:
    """The grammar as one expression; None if a rule contains itself or if the expression were too large."""
    done: dict[str, Expression | None] = {}
    sizes = SizeCounter()

    def inline(node: Expression, depth: int) -> Expression | None:
        match node:
            case Name(name):
                if name not in done:
                    done[name] = None
                    one = inline(parsed.rules[name], depth + 1) if depth < MAX_WRITTEN_OUT_DEPTH else None
                    # Checked rule by rule: the texts of a few rules may double with each of them.
                    done[name] = one if one is not None and sizes.fits(one) else None
                return done[name]
            case Sequence(parts):
                inlined = [one for part in parts if (one := inline(part, depth + 1)) is not None]
                return Sequence(tuple(inlined)) if len(inlined) == len(parts) else None
            case Choice(options):
                inlined = [one for option in options if (one := inline(option, depth + 1)) is not None]
                return Choice(tuple(inlined)) if len(inlined) == len(options) else None
            case Repetition(inner, at_least, at_most):
                one = inline(inner, depth + 1)
                return None if one is None else Repetition(one, at_least, at_most)
            case Terminal(inner):
                return inner
            case _:
                return node

    return inline(Name(START), 0)


def _rule(node: Expression, spelling: Spelling, prefix: str) -> str:
    match node:
        case Literal(text):
            return " ".join(f"/{escape_regex(spelling.write(char))}/" for char in text) or '""'
        case CharClass():
            return f"/{_class_regex(node, spelling)}/"
        case Terminal(inner):
            return _rule(inner, spelling, prefix)
        case Name(name):
            return f"{prefix}_{name}"
        case Sequence(parts):
            return " ".join(_rule(part, spelling, prefix) for part in parts)
        case Choice(options):
            return "(" + " | ".join(_rule(option, spelling, prefix) for option in options) + ")"
        case Repetition(inner, at_least, at_most):
            return '""' if at_most == 0 else f"({_rule(inner, spelling, prefix)}){quantifier(at_least, at_most)}"


def _regex(node: Expression, spelling: Spelling) -> str:
    match node:
        case Literal(text):
            return escape_regex(spelling.write(text))
        case CharClass():
            return _class_regex(node, spelling)
        case Terminal(inner):
            return _regex(inner, spelling)
        case Sequence(parts):
            return "".join(_regex(part, spelling) for part in parts)
        case Choice(options):
            return "(?:" + "|".join(_regex(option, spelling) for option in options) + ")"
        case Repetition(inner, at_least, at_most):
            return f"(?:{_regex(inner, spelling)}){quantifier(at_least, at_most)}"
        case Name(name):
            raise AssertionError(f"{name} was not written out")


def _class_regex(node: CharClass, spelling: Spelling) -> str:
    members = sorted(members_of(node, spelling.specials)) if spelling.escapes else []
    if not members:
        return node.regex
    plain = CharClass(f"[{node.source}&&[^{escape_regex(spelling.specials)}]]", node.ignores_case)
    escapes = [escape_regex(spelling.escapes[char]) for char in members]
    return f"(?:{'|'.join([plain.regex, *escapes])})"


@dataclass(frozen=True, slots=True)
class _Edges:
    """With which characters of the markers an expression can begin and end, and whether it can be empty."""

    first: frozenset[str]
    last: frozenset[str]
    is_nullable: bool


def _can_hold_marker(parsed: ParsedGrammar, spelling: Spelling) -> bool:
    """Whether an excluded text may be written: whether all pairs of its characters can be neighbours."""
    finder = _NeighbourFinder(parsed, spelling)
    pairs = finder.pairs()
    return pairs is None or any(
        all(pair in pairs for pair in pairwise(marker)) and finder.characters.issuperset(marker)
        for marker in spelling.excludes
    )


class _NeighbourFinder:
    """Finds the pairs of markers' characters that can be written next to each other."""

    def __init__(self, parsed: ParsedGrammar, spelling: Spelling) -> None:
        self._rules = parsed.rules
        self._spelling = spelling
        self._alphabet = "".join(sorted(set("".join(spelling.excludes))))
        self._edges = dict.fromkeys(parsed.rules, _Edges(frozenset(), frozenset(), False))
        self._pairs: set[tuple[str, str]] = set()
        self.characters: set[str] = set()

    def pairs(self) -> set[tuple[str, str]] | None:
        """The pairs; None if it takes too long to find all of them."""
        # The sets only grow. They are complete when nothing has grown.
        for _ in range(MAX_PASSES):
            before = dict(self._edges), len(self._pairs)
            for name in reversed(self._rules):
                self._edges[name] = self._edges_of(self._rules[name])
            if before == (self._edges, len(self._pairs)):
                return self._pairs
        return None

    def _edges_of(self, node: Expression) -> _Edges:
        match node:
            case Literal(text):
                return self._sequence([self._written([char]) for char in text])
            case CharClass():
                asked = "".join(dict.fromkeys(self._alphabet + self._spelling.specials))
                return self._written(sorted(members_of(node, asked)))
            case Terminal(inner):
                return self._edges_of(inner)
            case Name(name):
                return self._edges[name]
            case Sequence(parts):
                return self._sequence([self._edges_of(part) for part in parts])
            case Choice(options):
                edges = [self._edges_of(option) for option in options]
                return _Edges(
                    frozenset[str]().union(*(one.first for one in edges)),
                    frozenset[str]().union(*(one.last for one in edges)),
                    any(one.is_nullable for one in edges),
                )
            case Repetition(inner, at_least, at_most):
                edges = self._edges_of(inner)
                if at_most is None or at_most > 1:
                    self._meet(edges.last, edges.first)
                return _Edges(edges.first, edges.last, edges.is_nullable or at_least == 0)

    def _written(self, characters: list[str]) -> _Edges:
        """One of these characters, as it is written."""
        texts = [self._spelling.write(char) for char in characters]
        for text in texts:
            self._pairs.update(pairwise(text))
            self.characters.update(text)
        return _Edges(
            frozenset(self._alphabet).intersection(text[0] for text in texts),
            frozenset(self._alphabet).intersection(text[-1] for text in texts),
            False,
        )

    def _sequence(self, parts: list[_Edges]) -> _Edges:
        first, last, is_nullable = frozenset[str](), frozenset[str](), True
        for part in parts:
            self._meet(last, part.first)
            first = first | part.first if is_nullable else first
            last = part.last | last if part.is_nullable else part.last
            is_nullable = is_nullable and part.is_nullable
        return _Edges(first, last, is_nullable)

    def _meet(self, last: frozenset[str], first: frozenset[str]) -> None:
        self._pairs.update((one, other) for one in last for other in first)


def _check_ends(rules: dict[str, Expression]) -> None:
    """Refuse rules from which no text can come to an end."""
    ending: set[str] = set()
    for _ in range(MAX_PASSES):
        count = len(ending)
        for name in reversed(rules):
            if name not in ending and _can_end(rules[name], ending):
                ending.add(name)
        if len(ending) == count:
            break
    else:
        raise too_large("its rules contain each other in too many ways")
    if endless := sorted(rules.keys() - ending):
        raise refusal(f"the rule {endless[0]!r} never ends", "Give it an alternative that does not contain itself.")


def _can_end(node: Expression, ending: set[str]) -> bool:
    match node:
        case Name(name):
            return name in ending
        case Sequence(parts):
            return all(_can_end(part, ending) for part in parts)
        case Choice(options):
            return any(_can_end(option, ending) for option in options)
        case Repetition(inner, at_least):
            return at_least == 0 or _can_end(inner, ending)
        case _:
            return True
