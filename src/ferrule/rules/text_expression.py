"""Expressions over characters: the pieces of a text grammar, and the reader of Rust's regular expressions.

A character class is kept as it was written. Which characters it admits is asked of llguidance, which will match it
later, so that properties, nested classes and flags mean the same in both places.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from ferrule.core.byte_cache import ENTRY_BYTES, byte_cached
from ferrule.errors import DefinitionError, FormatError
from ferrule.rules.matcher import ByteMatcher

REFUSED = "grammar_refused"
MAX_SIZE = 20_000
"""The most characters and classes of a terminal, with its repetitions and the terminals in it written out."""
MAX_REPEAT = 1_000
MAX_NESTED = 50
MAX_WRITTEN_OUT_DEPTH = 3 * MAX_NESTED
"""How deep the parts of a terminal may be nested, or those of rules that become one, with what is in them."""


@dataclass(frozen=True, slots=True)
class Literal:
    text: str


@dataclass(frozen=True, slots=True)
class CharClass:
    """One character of a class, written as in a regex between slashes."""

    source: str
    ignores_case: bool = False

    @property
    def regex(self) -> str:
        return f"(?i:{self.source})" if self.ignores_case else self.source


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    options: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Repetition:
    """An expression repeated; `at_most` of None means no upper bound."""

    node: Expression
    at_least: int
    at_most: int | None


@dataclass(frozen=True, slots=True)
class Name:
    """A rule or a terminal by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Terminal:
    """One unit of the lexer: it matches as much as it can."""

    node: Expression


Expression: TypeAlias = Literal | CharClass | Sequence | Choice | Repetition | Name | Terminal


def refusal(message: str, hint: str) -> DefinitionError:
    return DefinitionError(f"the grammar is refused: {message}", code=REFUSED, hint=hint)


def too_large(message: str) -> DefinitionError:
    return refusal(message, "Use smaller repetition counts and fewer parts, or check the rest in the tool.")


def ignoring_case(text: str) -> Expression:
    """The text in upper and lower case."""
    classes = tuple(CharClass(f"[{escape_regex(char)}]", True) if char.isalpha() else Literal(char) for char in text)
    return classes[0] if len(classes) == 1 else Sequence(classes)


def escape_regex(text: str) -> str:
    """The text for a regex between slashes, outside and inside of classes."""
    return "".join(char if char.isalnum() or char in " _" else f"\\x{{{ord(char):x}}}" for char in text)


@byte_cached(lambda arguments, members: ENTRY_BYTES + 2 * len(arguments[0].source) + 64 * len(members))
def members_of(node: CharClass, characters: str) -> frozenset[str]:
    """The characters of these that a class admits. Raises `DefinitionError` if it is not a class."""
    try:
        matcher = ByteMatcher(f"start: /{node.regex}/")
    except FormatError as error:
        raise refusal(
            f"the character class {node.source:.80} is not valid: {error.message:.200}",
            "Write classes as Rust's regex crate does, such as [a-z] or [^\\n].",
        ) from error
    return frozenset(char for char in characters if matcher.accepts(char))


_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "a": "\a"}
_CLASSES = frozenset("dDwWsS")
_HEX_LENGTHS = {"x": 2, "u": 4, "U": 8}
_QUANTIFIERS = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_ANCHORS = frozenset("AzZbB")


def parse_regex(source: str, flags: str = "") -> Expression:
    """Read a regular expression in the syntax of Rust's regex crate. Anchors and lookaround are refused.

    Example:
        parse_regex("[a-z]+|x{2,3}", "i")
    """
    return _RegexReader(source, "i" in flags, "s" in flags).read()


def parse_anchored_regex(source: str) -> Expression:
    """Like `parse_regex`, for a regex of a whole text: an anchor at its begin and one at its end say nothing."""
    inner = source.removeprefix("^")
    backslashes = len(inner) - 1 - len(inner[:-1].rstrip("\\"))
    inner = inner[:-1] if inner.endswith("$") and backslashes % 2 == 0 else inner
    return parse_regex(source) if inner == source else _RegexReader(inner, False, False).read_anchored()


class _RegexReader:
    def __init__(self, source: str, ignores_case: bool, matches_newline: bool) -> None:
        self._source = source
        self._at = 0
        self._ignores_case = ignores_case
        self._matches_newline = matches_newline

    def read(self) -> Expression:
        node = self._choice(0)
        if self._at < len(self._source):
            raise self._refusal('")" has no matching "("')
        return node

    def read_anchored(self) -> Expression:
        """Read a regex that stood between two anchors: an anchor beside alternatives belongs to one of them only."""
        node = self._sequence(0)
        if self._next() == "|":
            raise self._refusal(
                "an anchor beside alternatives belongs to one of them only",
                "Leave out ^ and $: the whole text must match anyway.",
            )
        return node if self._at == len(self._source) else self.read()

    def _choice(self, depth: int) -> Expression:
        if depth > MAX_NESTED:
            raise too_large(f"groups are nested more than {MAX_NESTED} deep")
        flags = self._ignores_case, self._matches_newline
        options: list[Expression] = [self._sequence(depth)]
        while self._next() == "|":
            self._at += 1
            options.append(self._sequence(depth))
        # Flags that are set inside of a group end with it.
        self._ignores_case, self._matches_newline = flags
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self, depth: int) -> Expression:
        parts: list[Expression] = []
        while self._at < len(self._source) and self._next() not in "|)":
            atom = self._atom(depth)
            if atom is not None:
                parts.append(self._repeated(atom))
        return parts[0] if len(parts) == 1 else join(parts)

    def _atom(self, depth: int) -> Expression | None:
        char = self._next()
        if char == "(":
            return self._group(depth)
        if char == "[":
            return CharClass(self._class(0), self._ignores_case)
        if char == "\\":
            return self._escape()
        if char == ".":
            self._at += 1
            return CharClass("[\\s\\S]" if self._matches_newline else "[^\\n]")
        if char in "^$":
            raise self._refusal(f'"{char}" is an anchor', "Leave it out: the whole text must match anyway.")
        if char in "*+?{":
            raise self._refusal(f'"{char}" has nothing to repeat', f'Write "\\{char}" for the character.')
        self._at += 1
        return self._literal(char)

    def _literal(self, char: str) -> Expression:
        return ignoring_case(char) if self._ignores_case else Literal(char)

    def _group(self, depth: int) -> Expression | None:
        self._at += 1
        if self._source.startswith(("?=", "?!", "?<=", "?<!"), self._at):
            raise self._refusal("lookaround cannot be matched", "Write what may be there instead.")
        flags = self._ignores_case, self._matches_newline
        if self._next() == "?" and self._group_head():
            return None
        node = self._choice(depth + 1)
        self._ignores_case, self._matches_newline = flags
        if self._next() != ")":
            raise self._refusal("a group is not closed")
        self._at += 1
        return node

    def _group_head(self) -> bool:
        """Read what follows `(?`. Returns whether that is all: flags for the rest of the group around it."""
        self._at += 1
        end = next((at for at in range(self._at, len(self._source)) if self._source[at] in ":)>"), None)
        head = self._source[self._at : end]
        mark = "" if end is None else self._source[end]
        name = head.removeprefix("P").removeprefix("<")
        if mark == ">" and head.startswith(("<", "P<")) and name.isidentifier():
            self._at += len(head) + 1
            return False
        if mark in (":", ")") and set(head) <= set("isu"):
            self._at += len(head) + 1
            self._ignores_case |= "i" in head
            self._matches_newline |= "s" in head
            return mark == ")"
        raise self._refusal(f'the group "(?{head:.20}{mark}" is not known', "Use (...), (?:...), (?i:...) or (?s:...).")

    def _escape(self) -> Expression:
        char = self._source[self._at + 1 : self._at + 2]
        if char in _CLASSES and char:
            self._at += 2
            return CharClass(f"[\\{char}]")
        if char in ("p", "P") and char:
            return CharClass(f"[{self._property()}]", self._ignores_case)
        if char in _ANCHORS and char:
            raise self._refusal(f'"\\{char}" is an anchor', "Leave it out: the whole text must match anyway.")
        if char.isdigit() or char == "k":
            raise self._refusal("a backreference cannot be matched", "Write what may be there instead.")
        return self._literal(self._character())

    def _character(self) -> str:
        """The character of an escape."""
        char = self._source[self._at + 1 : self._at + 2]
        if char in _HEX_LENGTHS and char:
            return self._hex(_HEX_LENGTHS[char])
        if char in _ESCAPED and char:
            self._at += 2
            return _ESCAPED[char]
        if not char or char.isalnum():
            raise self._refusal(f'the escape "\\{char}" is not known')
        self._at += 2
        return char

    def _hex(self, length: int) -> str:
        start = self._at + 2
        if self._source.startswith("{", start):
            end = self._source.find("}", start)
            digits, after = self._source[start + 1 : end], end + 1
        else:
            digits, after = self._source[start : start + length], start + length
        if not 1 <= len(digits) <= 8 or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
            raise self._refusal("an escape has no hexadecimal number")
        code = int(digits, 16)
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise self._refusal(f"{digits} is not the number of a character")
        self._at = after
        return chr(code)

    def _property(self) -> str:
        end = self._at + 3
        if self._source.startswith("{", self._at + 2):
            end = self._source.find("}", self._at) + 1
        text = self._source[self._at : end]
        name = text[2:].strip("{}").replace("=", "").replace("_", "")
        if not name.isalnum() or len(text) > 60:
            raise self._refusal("a property has no name", r"Write a property such as \p{Letter}.")
        self._at = end
        return text

    def _class(self, depth: int) -> str:
        """A class in brackets, with everything escaped that a regex between slashes must escape."""
        if depth > MAX_NESTED:
            raise too_large(f"character classes are nested more than {MAX_NESTED} deep")
        start = self._at
        text = "["
        self._at += 1
        if self._next() == "^":
            text += "^"
            self._at += 1
        is_first = True
        while (char := self._next()) and (char != "]" or is_first):
            is_first = False
            if self._source.startswith("[:", self._at) and (end := self._source.find(":]", self._at)) > 0:
                name = self._source[self._at + 2 : end]
                if not name.removeprefix("^").isalpha():
                    raise self._refusal("a class such as [:alpha:] has no name")
                text += f"[:{name}:]"
                self._at = end + 2
            elif char == "[":
                text += self._class(depth + 1)
            elif char == "\\":
                text += self._class_escape()
            elif self._source.startswith(("&&", "--", "~~"), self._at):
                text += self._source[self._at : self._at + 2]
                self._at += 2
            else:
                text += char if char == "-" else f"\\x{{{ord(char):x}}}" if char == "]" else _in_class(char)
                self._at += 1
        if not char:
            self._at = start
            raise self._refusal("a character class is not closed")
        self._at += 1
        return text + "]"

    def _class_escape(self) -> str:
        char = self._source[self._at + 1 : self._at + 2]
        if char in _CLASSES and char:
            self._at += 2
            return f"\\{char}"
        if char in ("p", "P") and char:
            return self._property()
        return f"\\x{{{ord(self._character()):x}}}"

    def _repeated(self, atom: Expression) -> Expression:
        char = self._next()
        if char == "{":
            bounds = self._bounds()
        elif char and char in _QUANTIFIERS:
            self._at += 1
            bounds = _QUANTIFIERS[char]
        else:
            return atom
        if self._next() == "?":
            raise self._refusal("a lazy repetition has no meaning for a whole text", 'Leave out the second "?".')
        if self._next() in ("*", "+", "{"):
            raise self._refusal("a repetition is repeated", "Put the inner one into a group: (?:a+)*.")
        return Repetition(atom, *bounds)

    def _bounds(self) -> tuple[int, int | None]:
        end = self._source.find("}", self._at)
        least, comma, most = self._source[self._at + 1 : end].partition(",")
        digits = f"{least}{most}"
        if end < 0 or not least or not digits.isascii() or not digits.isdigit() or len(digits) > 12:
            raise self._refusal('"{" starts no repetition', 'Write "\\{" for the character.')
        self._at = end + 1
        return check_bounds(int(least), int(most) if most else None if comma else int(least))

    def _next(self) -> str:
        return self._source[self._at : self._at + 1]

    def _refusal(self, why: str, hint: str = "Write the regex as Rust's regex crate reads it.") -> DefinitionError:
        return refusal(f"{why}, at character {self._at} of the regex {self._source:.60}", hint)


def join(parts: list[Expression]) -> Expression:
    """A sequence, with neighbouring literals joined."""
    joined: list[Expression] = []
    for part in parts:
        if isinstance(part, Literal) and joined and isinstance(last := joined[-1], Literal):
            joined[-1] = Literal(last.text + part.text)
        else:
            joined.append(part)
    if not joined:
        return Literal("")
    return joined[0] if len(joined) == 1 else Sequence(tuple(joined))


def check_bounds(at_least: int, at_most: int | None) -> tuple[int, int | None]:
    if at_most is not None and at_most < at_least:
        raise refusal(f"a repetition has a maximum of {at_most}, below its minimum", "Swap the two numbers.")
    if max(at_least, at_most or 0) > MAX_REPEAT:
        raise too_large(f"a repetition exceeds {MAX_REPEAT}")
    return at_least, at_most


def _in_class(char: str) -> str:
    # These have a meaning inside of a class that they may not have had where they stood.
    return char if char.isalnum() or char in " _" else f"\\x{{{ord(char):x}}}"


def parts_of(node: Expression) -> tuple[Expression, ...]:
    match node:
        case Sequence(parts) | Choice(parts):
            return parts
        case Repetition(inner) | Terminal(inner):
            return (inner,)
        case _:
            return ()


def leaves_of(node: Expression) -> Iterator[Expression]:
    parts = parts_of(node)
    if not parts:
        yield node
    for part in parts:
        yield from leaves_of(part)


def check_size(what: str, *nodes: Expression) -> None:
    sizes = SizeCounter()
    if sum(map(sizes.of, nodes)) > MAX_SIZE:
        raise too_large(f"{what} has more than {MAX_SIZE} parts with its repetitions and terminals written out")
    if not all(map(sizes.fits, nodes)):
        raise too_large(f"{what} is nested more than {MAX_WRITTEN_OUT_DEPTH} deep with its terminals written out")


class SizeCounter:
    """Counts each shared part once, however often it occurs: a few lines may write out to billions of parts."""

    def __init__(self) -> None:
        self._sizes: dict[int, int] = {}
        self._depths: dict[int, int] = {}
        self._nodes: list[Expression] = []
        """All that were counted: the id of one that is gone would be another's."""

    def of(self, node: Expression) -> int:
        if id(node) not in self._sizes:
            self._nodes.append(node)
            self._sizes[id(node)] = self._size(node)
        return self._sizes[id(node)]

    def fits(self, node: Expression) -> bool:
        """Whether an expression is neither too large nor nested too deep to be written out."""
        return self.of(node) <= MAX_SIZE and self._depth(node) <= MAX_WRITTEN_OUT_DEPTH

    def _depth(self, node: Expression) -> int:
        if id(node) not in self._depths:
            self._depths[id(node)] = 1 + max(map(self._depth, parts_of(node)), default=0)
        return self._depths[id(node)]

    def _size(self, node: Expression) -> int:
        match node:
            case Literal(text):
                return 1 + len(text)
            case Sequence(parts) | Choice(parts):
                return 1 + sum(map(self.of, parts))
            case Terminal(inner):
                return self.of(inner)
            case Repetition(inner, at_least, at_most):
                return 1 + self.of(inner) * max(1, at_least, at_most or 0)
            case _:
                return 1
