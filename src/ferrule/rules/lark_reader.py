"""Read a Lark definition: its rules, with its terminals written out in them.

What is read, and what is refused by name, is in `text_grammar`. This module knows no envelope and no engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from typing import Literal as OneOfTexts

from ferrule.errors import DefinitionError
from ferrule.rules.text_expression import (
    MAX_NESTED,
    MAX_WRITTEN_OUT_DEPTH,
    CharClass,
    Choice,
    Expression,
    Literal,
    Name,
    Repetition,
    Sequence,
    Terminal,
    check_bounds,
    check_size,
    escape_regex,
    ignoring_case,
    join,
    leaves_of,
    parse_regex,
    refusal,
    too_large,
)

START = "start"


def read_lark(definition: str) -> dict[str, Expression]:
    """Return the rules that can be reached from `start`. Raises `DefinitionError` with code `grammar_refused`.

    Example:
        read_lark('start: "a" B+\\nB: /[0-9]/')
    """
    return _Reader(definition).rules()


# Our own definitions of the terminals that Lark's library has under these names.
COMMON: Mapping[str, str] = {
    "DIGIT": "[0-9]",
    "HEXDIGIT": "[0-9a-fA-F]",
    "INT": "[0-9]+",
    "SIGNED_INT": "[+-]?[0-9]+",
    "DECIMAL": r"[0-9]+\.[0-9]*|\.[0-9]+",
    "FLOAT": r"[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?",
    "SIGNED_FLOAT": r"[+-]?(?:[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)",
    "NUMBER": r"[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+",
    "SIGNED_NUMBER": r"[+-]?(?:[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+)",
    "ESCAPED_STRING": r'"(?:[^"\\\n]|\\.)*"',
    "LCASE_LETTER": "[a-z]",
    "UCASE_LETTER": "[A-Z]",
    "LETTER": "[a-zA-Z]",
    "WORD": "[a-zA-Z]+",
    "CNAME": "[a-zA-Z_][a-zA-Z0-9_]*",
    "WS_INLINE": r"[ \t]+",
    "WS": r"[ \t\f\r\n]+",
    "CR": r"\r",
    "LF": r"\n",
    "NEWLINE": r"(?:\r?\n)+",
    "SH_COMMENT": r"#[^\n]*",
    "CPP_COMMENT": r"//[^\n]*",
    "SQL_COMMENT": r"--[^\n]*",
}

_Kind = OneOfTexts["rule", "terminal", "string", "regex", "number", "newline", "directive", "sign", "end"]
_TOKEN = re.compile(
    r"""
      (?P<blank>[ \t\f\r]+|//[^\n]*|\#[^\n]*)
    | (?P<newline>\n)
    | (?P<directive>%[a-z]+)
    | (?P<rule>[!?]{0,2}_{0,3}[a-z][a-z0-9_]*)
    | (?P<terminal>_{0,3}[A-Z][A-Z0-9_]*)
    | (?P<string>"(?:[^"\\\n]|\\.)*"[a-z]*)
    | (?P<regex>/(?:[^/\\\n]|\\[^\n])+/[a-z]*)
    | (?P<number>-?[0-9]+)
    | (?P<sign>\.\.|->|[:|()\[\]?*+~{},.<>&@=$-])
    """,
    re.VERBOSE,
)
_UNKNOWN: Mapping[str, str] = {
    "%ignore": "Write the ignored text where it may stand, for example WS? between two parts.",
    "%json": "Give the tool a JSON Schema, or write the text's grammar out.",
    "<": "Special tokens cannot occur in a text; write the characters.",
    "&": "Write one regular expression for both.",
    "@": "Write the grammar in one definition.",
    "$": "Write the grammar in one definition.",
    "{": "Templates are not supported; write the rule once for each use.",
}
_QUANTIFIERS: Mapping[str, tuple[int, int | None]] = {"?": (0, 1), "*": (0, None), "+": (1, None)}
_STRING_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "b": "\b", "a": "\a", "0": "\0"}


@dataclass(frozen=True, slots=True)
class _Token:
    kind: _Kind
    text: str
    line: int


@dataclass(slots=True)
class _Reader:
    """Reads a Lark definition by recursive descent."""

    definition: str
    _tokens: list[_Token] = field(default_factory=list[_Token])
    _at: int = 0
    _rules: dict[str, Expression] = field(default_factory=dict[str, Expression])
    _terminals: dict[str, Expression] = field(default_factory=dict[str, Expression])
    _written_out: dict[str, Expression] = field(default_factory=dict[str, Expression])

    def rules(self) -> dict[str, Expression]:
        self._tokens = list(_tokens(self.definition))
        while self._token.kind != "end":
            if self._token.kind == "newline":
                self._at += 1
            elif self._token.kind == "directive":
                self._directive()
            else:
                self._definition()
        if START not in self._rules:
            raise refusal(f"it has no rule {START!r}", f'Name the first rule {START}: {START}: "a"+')
        # All are read, so that a mistake in an unused one is found too; only those are kept that can be reached.
        resolved = {name: self._resolve(node) for name, node in self._rules.items()}
        for name in self._terminals:
            check_size(name, self._terminal(name, (), 0))
        return {name: resolved[name] for name in _reachable(resolved)}

    @property
    def _token(self) -> _Token:
        return self._tokens[self._at]

    def _take(self, *texts: str) -> str:
        """Take a sign and return it; "" if none of these comes next."""
        if self._token.kind == "sign" and self._token.text in texts:
            self._at += 1
            return self._tokens[self._at - 1].text
        return ""

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise self._unexpected(f'expected "{text}"')

    def _unexpected(self, why: str = "") -> DefinitionError:
        token = self._token
        hint = _UNKNOWN.get(token.text, "Use rules, terminals, literals, regular expressions and quantifiers.")
        what = "the end" if token.kind == "end" else "a line break" if token.kind == "newline" else f"{token.text:.40}"
        return refusal(f"{what} in line {token.line} is not supported{': ' if why else ''}{why}", hint)

    def _directive(self) -> None:
        if self._token.text != "%import":
            raise self._unexpected()
        words = [token.text for token in self._tokens[self._at + 1 : self._at + 3]]
        if words not in (["common", "."], ["common", "("]):
            library = "".join(words[:1])
            raise refusal(
                f"only terminals of `common` can be imported, not of {library:.40}", "Write %import common.LF."
            )
        self._at += 2
        self._take(".")
        names: list[str] = []
        if self._take("("):
            while not names or self._take(","):
                names.append(self._terminal_name())
            self._expect(")")
            targets = names
        else:
            names = [self._terminal_name()]
            targets = [self._terminal_name()] if self._take("->") else names
        for name, target in zip(names, targets, strict=True):
            if name not in COMMON:
                raise refusal(f"common.{name:.40} is not known", f"Known: {', '.join(COMMON)}. Or define the terminal.")
            self._terminals[target] = parse_regex(COMMON[name])
        self._end_of_line()

    def _terminal_name(self) -> str:
        if self._token.kind != "terminal":
            raise self._unexpected("expected the name of a terminal")
        self._at += 1
        return self._tokens[self._at - 1].text

    def _definition(self) -> None:
        token = self._token
        if token.kind not in ("rule", "terminal"):
            raise self._unexpected("expected a name and a colon")
        self._at += 1
        if self._take("."):
            self._number()
        if not self._take(":"):
            if self._token.text == "{":
                raise self._unexpected("templates")
            raise self._unexpected('expected ":" after a name')
        name = token.text.lstrip("!?")
        names = self._rules if token.kind == "rule" else self._terminals
        if name in names:
            raise refusal(f"{name:.60} is defined twice", "Join the two with |.")
        names[name] = self._choice(0, is_terminal=token.kind == "terminal")
        self._end_of_line()

    def _end_of_line(self) -> None:
        if self._token.kind not in ("newline", "end"):
            raise self._unexpected()

    def _number(self) -> int:
        if self._token.kind != "number" or len(self._token.text) > 9:
            raise self._unexpected("expected a number")
        self._at += 1
        return int(self._tokens[self._at - 1].text)

    def _choice(self, depth: int, *, is_terminal: bool) -> Expression:
        if depth > MAX_NESTED:
            raise too_large(f"groups are nested more than {MAX_NESTED} deep")
        options: list[Expression] = []
        self._skip_newlines(depth)
        while not options or self._take("|"):
            options.append(self._sequence(depth, is_terminal=is_terminal))
            self._skip_newlines(depth)
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _skip_newlines(self, depth: int) -> None:
        """Skip line breaks inside of a group, and those before an alternative."""
        at = self._at
        while self._tokens[at].kind == "newline":
            at += 1
        if depth or self._tokens[at].text == "|":
            self._at = at

    def _sequence(self, depth: int, *, is_terminal: bool) -> Expression:
        parts: list[Expression] = []
        while True:
            if depth:
                self._skip_newlines(depth)
            token = self._token
            if token.kind in ("newline", "end") or token.text in ("|", ")", "]"):
                break
            if self._take("->"):
                if self._token.kind != "rule":
                    raise self._unexpected("expected the name of an alternative")
                self._at += 1
                break
            parts.append(self._repeated(self._atom(depth, is_terminal=is_terminal)))
        if not parts:
            return Literal("")
        if is_terminal:
            return join(parts)
        # Each literal of a rule is a terminal of its own.
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _atom(self, depth: int, *, is_terminal: bool) -> Expression:
        token = self._token
        if self._take("("):
            node = self._choice(depth + 1, is_terminal=is_terminal)
            self._expect(")")
            return node
        if self._take("["):
            node = self._choice(depth + 1, is_terminal=is_terminal)
            self._expect("]")
            return Repetition(node, 0, 1)
        if token.kind not in ("rule", "terminal", "string", "regex"):
            raise self._unexpected()
        self._at += 1
        if token.kind in ("rule", "terminal"):
            if token.kind == "rule" and (is_terminal or token.text[0] in "!?"):
                self._at -= 1
                raise self._unexpected("a terminal cannot contain a rule" if is_terminal else "")
            return Name(token.text)
        node = self._range(token) or _string_or_regex(token)
        return node if is_terminal or isinstance(node, Literal) else Terminal(node)

    def _range(self, token: _Token) -> Expression | None:
        if token.kind != "string" or not self._take(".."):
            return None
        low, high = _string(token), None
        if self._token.kind == "string":
            high = _string(self._token)
            self._at += 1
        texts = [node.text for node in (low, high) if isinstance(node, Literal)]
        if [*map(len, texts)] != [1, 1] or texts[0] > texts[1]:
            raise refusal(
                f"the range in line {token.line} does not go from one character to a later one", 'Write "a".."z".'
            )
        return CharClass(f"[{escape_regex(texts[0])}-{escape_regex(texts[1])}]")

    def _repeated(self, node: Expression) -> Expression:
        sign = self._take(*_QUANTIFIERS, "~", "{")
        if not sign:
            return node
        if sign in _QUANTIFIERS:
            bounds = _QUANTIFIERS[sign]
        elif sign == "~":
            if self._token.kind != "number":
                raise self._unexpected('expected a number after "~"')
            least = self._number()
            bounds = check_bounds(least, self._number() if self._take("..") else least)
        else:
            least = 0 if self._token.text == "," else self._number()
            most: int | None = least
            if self._take(","):
                most = self._number() if self._token.kind == "number" else None
            self._expect("}")
            bounds = check_bounds(least, most)
        if bounds[0] < 0:
            raise refusal("a repetition has a negative count", "Write a count of at least 0.")
        return Repetition(node, *bounds)

    def _resolve(self, node: Expression) -> Expression:
        """The node of a rule with the terminals in it written out."""
        match node:
            case Name(name) if name in self._rules:
                return node
            case Name(name):
                return Terminal(self._terminal(name, (), 0))
            case Sequence(parts):
                return Sequence(tuple(map(self._resolve, parts)))
            case Choice(options):
                return Choice(tuple(map(self._resolve, options)))
            case Repetition(inner, at_least, at_most):
                return Repetition(self._resolve(inner), at_least, at_most)
            case _:
                return node

    def _terminal(self, name: str, around: tuple[str, ...], depth: int) -> Expression:
        if name in around:
            raise refusal(f"the terminal {name} contains itself", "Make it a rule: write its name in lower case.")
        if name not in self._terminals:
            raise refusal(f"{name:.60} is not defined", f"Define it, or import it: %import common.{name:.60}")
        if len(around) > MAX_NESTED or depth > MAX_WRITTEN_OUT_DEPTH:
            raise too_large(f"terminals are nested more than {MAX_NESTED} deep")
        if name not in self._written_out:
            node = self._write_out(self._terminals[name], (*around, name), depth + 1)
            check_size(name, node)
            self._written_out[name] = node
        return self._written_out[name]

    def _write_out(self, node: Expression, around: tuple[str, ...], depth: int) -> Expression:
        match node:
            case Name(name):
                return self._terminal(name, around, depth)
            case Sequence(parts):
                return Sequence(tuple(self._write_out(part, around, depth + 1) for part in parts))
            case Choice(options):
                return Choice(tuple(self._write_out(option, around, depth + 1) for option in options))
            case Repetition(inner, at_least, at_most):
                return Repetition(self._write_out(inner, around, depth + 1), at_least, at_most)
            case _:
                return node


def _tokens(definition: str) -> Iterator[_Token]:
    at, line = 0, 1
    while at < len(definition):
        match = _TOKEN.match(definition, at)
        if match is None:
            raise refusal(
                f"{definition[at : at + 20]!r} in line {line} cannot be read",
                'Write literals as "text" and regular expressions as /text/, each within one line.',
            )
        at = match.end()
        kind: Any = match.lastgroup
        if kind != "blank":
            yield _Token(kind, match[0], line)
        line += kind == "newline"
    yield _Token("end", "", line)


def _string_or_regex(token: _Token) -> Expression:
    if token.kind == "string":
        return _string(token)
    end = token.text.rindex("/")
    flags = token.text[end + 1 :]
    if not set(flags) <= set("isu"):
        raise refusal(f"the flags {flags!r} in line {token.line} are not supported", "Use i and s.")
    return parse_regex(token.text[1:end], flags)


def _string(token: _Token) -> Expression:
    end = token.text.rindex('"')
    flags = token.text[end + 1 :]
    if flags not in ("", "i"):
        raise refusal(f"the flags {flags!r} in line {token.line} are not supported", "Use i.")
    text = _unescape(token.text[1:end], token.line)
    return ignoring_case(text) if flags and any(map(str.isalpha, text)) else Literal(text)


_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))")


def _unescape(source: str, line: int) -> str:
    def character(match: re.Match[str]) -> str:
        if code := match[1] or match[2] or match[3]:
            number = int(code, 16)
            if number <= 0x10FFFF and not 0xD800 <= number < 0xE000:
                return chr(number)
        elif match[4] in _STRING_ESCAPES:
            return _STRING_ESCAPES[match[4]]
        elif not match[4].isalnum():
            return match[4]
        raise refusal(f"the escape {match[0]} in line {line} is not known", r"Use \n, \t, \\, \" or \x0a.")

    return _ESCAPE.sub(character, source)


def _reachable(rules: Mapping[str, Expression]) -> list[str]:
    reached = [START]
    seen = {START}
    for name in reached:
        for leaf in leaves_of(rules[name]):
            if isinstance(leaf, Name) and leaf.name not in seen:
                seen.add(leaf.name)
                reached.append(leaf.name)
    return reached
