"""Check that a regular expression is safe to run: only linear-time syntax, and a bounded size.

The scanner accepts the common subset of ECMA-262 and of the linear-time engines (RE2, Rust): alternation, groups,
classes, escapes and repetition. Backreferences and lookaround need backtracking and are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ferrule.errors import SchemaError

MAX_REPEAT = 1000

# The cost of one atom in a compiled automaton, in units of a plain character.
_PLAIN, _WIDE, _UNICODE = 1, 4, 100

_CLASS_ESCAPES = {"d": _PLAIN, "w": _PLAIN, "s": _WIDE, "D": _WIDE, "W": _WIDE, "S": _WIDE}
_HEX_ESCAPE = re.compile(r"x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|u\{[0-9a-fA-F]{1,6}\}|c[a-zA-Z]")
# The Unicode properties of ECMA-262 that the validator and llguidance read alike; a test asks both for each name.
CATEGORIES = (
    "L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "Mn", "Mc", "Me", "N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Ps", "Pe",
    "Pi", "Pf", "Po", "S", "Sm", "Sc", "Sk", "So", "Z", "Zs", "Zl", "Zp", "C", "Cc", "Cf", "Letter",
    "Uppercase_Letter", "Lowercase_Letter", "Titlecase_Letter", "Modifier_Letter", "Other_Letter", "Mark",
    "Nonspacing_Mark", "Spacing_Mark", "Enclosing_Mark", "Number", "Decimal_Number", "Letter_Number",
    "Other_Number", "Punctuation", "Connector_Punctuation", "Dash_Punctuation", "Open_Punctuation",
    "Close_Punctuation", "Initial_Punctuation", "Final_Punctuation", "Other_Punctuation", "Symbol", "Math_Symbol",
    "Currency_Symbol", "Modifier_Symbol", "Other_Symbol", "Separator", "Space_Separator", "Line_Separator",
    "Paragraph_Separator", "Other", "Control", "Format",
)  # fmt: skip
PROPERTIES = ("Alphabetic", "Lowercase", "Uppercase", "White_Space", "ASCII", "Emoji")
SCRIPTS = (
    "Arabic", "Armenian", "Bengali", "Bopomofo", "Cherokee", "Common", "Cyrillic", "Devanagari", "Ethiopic",
    "Georgian", "Greek", "Gujarati", "Gurmukhi", "Han", "Hangul", "Hebrew", "Hiragana", "Kannada", "Katakana",
    "Khmer", "Lao", "Latin", "Malayalam", "Mongolian", "Myanmar", "Oriya", "Sinhala", "Tamil", "Telugu", "Thai",
    "Tibetan",
)  # fmt: skip
_CATEGORY = re.compile(
    rf"[pP]\{{(?:(?:(?:gc|General_Category)=)?(?:{'|'.join(CATEGORIES)})|{'|'.join(PROPERTIES)}"
    rf"|(?:sc|scx|Script|Script_Extensions)=(?:{'|'.join(SCRIPTS)}))\}}"
)
_BOUNDS = re.compile(r"\{([0-9]{1,6})(,?)([0-9]{0,6})\}")
_GROUP_NAME = re.compile(r"\?P?<([A-Za-z_][A-Za-z0-9_]*)>")
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ ")
_LOOKAROUND = ("?=", "?!", "?<=", "?<!")
_MAX_GROUPS_DEEP = 50


def pattern_size(pattern: str, path: str, *, max_length: int, max_size: int) -> int:
    """The size of a pattern with bounded repetitions expanded. Raises `SchemaError` if it is not safe to run."""
    if len(pattern) > max_length:
        raise SchemaError(
            f"the pattern is longer than {max_length} characters",
            code="pattern_too_large",
            path=path,
            hint="Use a shorter pattern, or check the rest in the tool.",
        )
    return _Scanner(pattern, path, max_size).scan()


@dataclass(slots=True)
class _Scanner:
    pattern: str
    path: str
    max_size: int
    at: int = 0
    names: set[str] = field(default_factory=set[str])

    def scan(self) -> int:
        size = self._alternatives(0)
        if self.at < len(self.pattern):
            raise self._invalid('")" has no matching "("')
        return size

    def _alternatives(self, depth: int) -> int:
        if depth > _MAX_GROUPS_DEEP:
            raise self._too_large(f"groups are nested more than {_MAX_GROUPS_DEEP} deep")
        size = 1
        while self.at < len(self.pattern) and self.pattern[self.at] != ")":
            if self.pattern[self.at] == "|":
                self.at += 1
                size += 1
            else:
                atom, may_repeat = self._atom(depth)
                size += atom * self._repetition(may_repeat)
            if size > self.max_size:
                raise self._too_large("with its repetitions expanded")
        return size

    def _atom(self, depth: int) -> tuple[int, bool]:
        char = self.pattern[self.at]
        if char == "(":
            return self._group(depth), True
        if char == "[":
            return self._class(), True
        if char == "\\":
            return self._escape()
        if char in "*+?{":
            raise self._invalid(f'"{char}" has nothing to repeat')
        self.at += 1
        return (_WIDE if char == "." else _PLAIN), char not in "^$"

    def _group(self, depth: int) -> int:
        self.at += 1
        rest = self.pattern[self.at : self.at + 3]
        if rest.startswith(_LOOKAROUND):
            raise self._not_linear("lookaround")
        if rest.startswith("?:"):
            self.at += 2
        elif rest.startswith("?"):
            named = _GROUP_NAME.match(self.pattern, self.at)
            if named is None or named[1] in self.names:
                raise self._invalid(f'the group "({rest}" is not supported')
            self.names.add(named[1])
            self.at = named.end()
        size = self._alternatives(depth + 1)
        if self.at >= len(self.pattern):
            raise self._invalid("a group is not closed")
        self.at += 1
        return size

    def _escape(self) -> tuple[int, bool]:
        start = self.at
        char = self.pattern[start + 1 : start + 2]
        if char and char in "bB":
            self.at += 2
            if self.pattern.startswith("{", self.at):
                raise self._invalid('"{" has nothing to repeat')
            return _PLAIN, False
        if char == "k" or (char.isdigit() and char != "0"):
            raise self._not_linear("a backreference")
        size, _ = self._escape_member()
        return size, True

    def _escape_member(self) -> tuple[int, str]:
        """The size of an escape, and the single character that it means ("" for a class)."""
        char = self.pattern[self.at + 1 : self.at + 2]
        if char in _CLASS_ESCAPES and char:
            self.at += 2
            return _CLASS_ESCAPES[char], ""
        if (category := _CATEGORY.match(self.pattern, self.at + 1)) is not None:
            self.at = category.end()
            return _UNICODE, ""
        if (hex_escape := _HEX_ESCAPE.match(self.pattern, self.at + 1)) is not None:
            self.at = hex_escape.end()
            return _PLAIN, self._hex_character(hex_escape[0])
        if char and (char in _PUNCTUATION or char in "tnrfv"):
            self.at += 2
            return _PLAIN, {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v"}.get(char, char)
        if char in ("p", "P"):
            raise SchemaError(
                f"the pattern uses a Unicode property at character {self.at} that is not supported",
                code="pattern_invalid",
                path=self.path,
                hint=r"Use a general category such as \p{L} or \p{Letter}, or a script such as \p{Script=Greek}.",
            )
        raise self._invalid(f'the escape "\\{char}" is not supported')

    def _hex_character(self, code: str) -> str:
        point = ord(code[1]) % 32 if code[0] == "c" else int(code[1:].strip("{}"), 16)
        if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
            raise self._invalid(f'"\\{code}" is not a character')
        return chr(point)

    def _class(self) -> int:
        self.at += 1
        negated = self.pattern.startswith("^", self.at)
        self.at += negated
        size, members = (_WIDE if negated else _PLAIN), 0
        while not self.pattern.startswith("]", self.at):
            size = max(size, self._range())
            members += 1
        if members == 0:
            raise self._invalid("a character class is empty")
        self.at += 1
        return size

    def _range(self) -> int:
        size, low = self._member()
        following = self.pattern[self.at : self.at + 2]
        if not following.startswith("-") or following == "-]":
            return size
        self.at += 1
        high_size, high = self._member()
        if not low or not high or high < low:
            raise self._invalid('"-" does not form a valid range')
        return max(size, high_size, _PLAIN if high < "\x80" else _WIDE)

    def _member(self) -> tuple[int, str]:
        if self.at >= len(self.pattern):
            raise self._invalid("a character class is not closed")
        if self.pattern[self.at] == "\\":
            return self._escape_member()
        self.at += 1
        return _PLAIN, self.pattern[self.at - 1]

    def _repetition(self, may_repeat: bool) -> int:
        char = self.pattern[self.at : self.at + 1]
        if char not in ("*", "+", "?", "{"):
            return 1
        if not may_repeat:
            raise self._invalid(f'"{char}" has nothing to repeat')
        count = 1
        if char == "{":
            count = self._bounds()
        else:
            self.at += 1
        if self.pattern.startswith("?", self.at):
            self.at += 1
        return count

    def _bounds(self) -> int:
        bounds = _BOUNDS.match(self.pattern, self.at)
        if bounds is None:
            raise self._invalid('"{" starts no repetition')
        low, high = int(bounds[1]), int(bounds[3] or bounds[1])
        if bounds[3] and not bounds[2]:
            raise self._invalid('"{" starts no repetition')
        if high < low:
            raise self._invalid(f"the repetition {bounds[0]} has a maximum below its minimum")
        if high > MAX_REPEAT:
            raise self._too_large(f"the repetition {bounds[0]} exceeds {MAX_REPEAT}")
        self.at = bounds.end()
        return max(high, 1)

    def _not_linear(self, what: str) -> SchemaError:
        return SchemaError(
            f"the pattern uses {what}, which cannot be matched in linear time",
            code="pattern_not_linear",
            path=self.path,
            hint="Rewrite the pattern without backreferences and lookaround, or check that part in the tool.",
        )

    def _too_large(self, why: str) -> SchemaError:
        return SchemaError(
            f"the pattern is too large: {why}",
            code="pattern_too_large",
            path=self.path,
            hint="Use smaller repetition counts, or maxLength for the length.",
        )

    def _invalid(self, why: str) -> SchemaError:
        return SchemaError(
            f"the pattern is not valid at character {self.at}: {why}",
            code="pattern_invalid",
            path=self.path,
            hint='Use ECMA-262 syntax; escape "{", "[" and "-" if they are literal; anchor with ^ and $.',
        )
