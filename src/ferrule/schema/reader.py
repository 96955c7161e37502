"""Read one value in any notation, in pieces, and convert it to JSON text.

The output is always normalized JSON (", " and ": ", numbers as written, no needless escapes), so the same call gives
the same arguments text whatever the family writes. Output is never taken back: strings are streamed, scalars wait for
their end. Each character is read a bounded number of times, however the text is split. The reader never raises.

A duplicate key in an object is an error. Below `strict_depth` the reader drops the later member instead and lists its
key in `duplicate_keys`: no grammar can ensure that the keys of a free object differ, and JSON consumers must see each
key once.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ferrule.core.json_text import escape_text
from ferrule.schema.notation import BARE_KEY, JSON, Container, Escapes, Notation, Quote


class Escape(NamedTuple):
    """An escape: `size` characters that mean `json`. A size of 0 means that this is not an escape."""

    json: str
    size: int


_NOT_AN_ESCAPE = Escape("", 0)
_JSON_LETTERS = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_PYTHON_LETTERS = {
    "\\": "\\", "'": "'", '"': '"', "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\n": "",
}  # fmt: skip
_LETTERS = {Escapes.JSON: _JSON_LETTERS, Escapes.PYTHON: _PYTHON_LETTERS}
_HEX_SIZES = {Escapes.JSON: {"u": 4}, Escapes.PYTHON: {"x": 2, "u": 4, "U": 8}}
_HEX = re.compile(r"[0-9A-Fa-f]+")
_OCTAL = re.compile(r"[0-7]{1,3}")
_LOW_SURROGATE = re.compile(r"\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})")


def read_escape(text: str, at: int, kind: Escapes, at_end: bool) -> Escape | None:
    """The escape at `at`, where there is a backslash; None if more text is needed."""
    size = len(text)
    if at + 1 >= size:
        return _unknown(kind, "\\", 1) if at_end else None
    letter = text[at + 1]
    plain = _LETTERS[kind].get(letter)
    if plain is not None:
        return Escape(escape_text(plain), 2)
    digits = _HEX_SIZES[kind].get(letter)
    if digits is not None:
        return _read_hex(text, at, digits, kind, at_end)
    if kind is Escapes.PYTHON and letter in "01234567":
        if size - at < 4 and not at_end:
            return None
        match = _OCTAL.match(text, at + 1)
        octal = match.group() if match else letter
        return Escape(escape_text(chr(int(octal, 8))), 1 + len(octal))
    return _unknown(kind, text[at : at + 2], 2)


def _unknown(kind: Escapes, raw: str, size: int) -> Escape:
    """An unknown escape: Python keeps the backslash, JSON does not allow it."""
    return Escape(escape_text(raw), size) if kind is Escapes.PYTHON else _NOT_AN_ESCAPE


def _read_hex(text: str, at: int, digits: int, kind: Escapes, at_end: bool) -> Escape | None:
    end = at + 2 + digits
    code = text[at + 2 : end]
    if len(code) < digits:
        return _unknown(kind, text[at : at + 2], 2) if at_end or not _is_hex(code) else None
    if not _is_hex(code):
        return _unknown(kind, text[at : at + 2], 2)
    number = int(code, 16)
    if number > 0x10FFFF:
        return _unknown(kind, text[at : at + 2], 2)
    if 0xD800 <= number < 0xDC00:
        return _read_pair(text, at, number, end, at_end)
    if 0xDC00 <= number < 0xE000:
        return Escape(f"\\u{number:04x}", end - at)
    return Escape(escape_text(chr(number)), end - at)


def _read_pair(text: str, at: int, high: int, end: int, at_end: bool) -> Escape | None:
    """Read a surrogate pair, the two escapes of a character beyond the BMP.

    A surrogate without its other half stays an escape, because it cannot be encoded as UTF-8.
    """
    following = text[end : end + 6]
    match = _LOW_SURROGATE.match(following)
    if match:
        low = int(match.group(1), 16)
        return Escape(chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)), end - at + 6)
    if len(following) < 6 and not at_end and "\\u"[: len(following)] == following[:2]:
        return None
    return Escape(f"\\u{high:04x}", end - at)


def _is_hex(code: str) -> bool:
    return not code or _HEX.fullmatch(code) is not None


MAX_DEPTH = 256

_SPACE = re.compile(r"[ \t\r\n]*")
_WORD = re.compile(r"[A-Za-z0-9+\-._]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")

# States: what the reader expects next.
_VALUE, _FIRST, _KEY, _ASSIGN, _AFTER, _STRING, _WORDS, _BARE, _DONE, _BAD = range(10)


class Reader:
    """Reads one value. With `root`, reading starts inside that container, whose opening the caller has already read."""

    __slots__ = (
        *("_discard_depth", "_is_key", "_key", "_keys", "_notation", "_out", "_pending_comma"),
        *("_quote", "_saved_out", "_stack", "_state", "_strict_depth", "duplicate_keys", "is_too_deep", "problem"),
    )

    def __init__(self, notation: Notation = JSON, root: Container | None = None, strict_depth: int = MAX_DEPTH) -> None:
        self._notation = notation
        self._strict_depth = strict_depth
        # The depth of the object whose duplicate member is being dropped; 0 if none is.
        self._discard_depth = 0
        self._saved_out: list[str] = []
        self.duplicate_keys: list[str] = []
        self._stack: list[Container] = []
        self._keys: list[set[str]] = []
        self._out: list[str] = []
        self._pending_comma: list[str] = []
        self._key: list[str] = []
        self._is_key = False
        self._quote: Quote = notation.quotes[0]
        self._state = _VALUE
        self.problem = ""
        self.is_too_deep = False
        if root is not None:
            self._open(root)

    @property
    def is_done(self) -> bool:
        return self._state == _DONE

    @property
    def is_bad(self) -> bool:
        return self._state == _BAD

    def take(self) -> str:
        """The JSON text since the last call."""
        out = self._out
        if self._discard_depth:
            out.clear()
            out = self._saved_out
        text = "".join(out)
        out.clear()
        return text

    def read(self, text: str, at: int, at_end: bool) -> int:
        """Read from `at` as far as possible; returns where it stopped. You may drop the text before that."""
        size = len(text)
        while self._state < _DONE:
            if self._state == _STRING:
                start = at
                at = self._read_string(text, at, at_end)
                if self._state == _STRING and (at >= size or at == start):
                    return at
                continue
            if self._state == _WORDS or self._state == _BARE:
                at = self._read_run(text, at)
                if at < size or at_end:
                    self._finish_run()
                    continue
                return at
            match = _SPACE.match(text, at)
            at = match.end() if match else at
            if at >= size:
                return at
            stop = self._step(text, at, at_end)
            if stop is None:
                return at
            at = stop
        return at

    def _step(self, text: str, at: int, at_end: bool) -> int | None:
        """Read one token at `at`, which is not white space; None if more text is needed."""
        char = text[at]
        state = self._state
        if state == _AFTER:
            return self._after_value(char, at)
        if state == _ASSIGN:
            if char != self._stack[-1].assign:
                return self._fail(at, f"expected {self._stack[-1].assign!r} after a key")
            self._out.append(": ")
            self._state = _VALUE
            return at + 1
        if state == _FIRST and char == self._stack[-1].close:
            return self._close(at)
        keyed = state != _VALUE and self._stack[-1].is_keyed
        for quote in self._notation.quotes:
            if text.startswith(quote.open, at):
                return self._start_string(quote, at, keyed)
            if not at_end and len(text) - at < len(quote.open) and quote.open.startswith(text[at:]):
                return None
        if keyed:
            if self._notation.has_bare_keys or self._stack[-1].assign == "=":
                self._state = _BARE
                return at
            return self._fail(at, "expected a quoted key")
        if char in self._notation.containers:
            if len(self._stack) >= MAX_DEPTH:
                self.is_too_deep = True
                return self._fail(at, f"nested deeper than {MAX_DEPTH}")
            self._start_item()
            self._open(self._notation.containers[char])
            return at + 1
        match = _WORD.match(text, at)
        if match and match.end() > at:
            self._start_item()
            self._state = _WORDS
            return at
        return self._fail(at, f"{char!r} does not start a value")

    def _after_value(self, char: str, at: int) -> int:
        container = self._stack[-1]
        if char == ",":
            trailing = self._notation.allows_trailing_comma
            self._state = _FIRST if trailing else (_KEY if container.is_keyed else _VALUE)
            self._pending_comma.append(", ")
            return at + 1
        if char == container.close:
            return self._close(at)
        return self._fail(at, f"expected ',' or {container.close!r}")

    def _start_item(self) -> None:
        """Write the pending comma. It is written only if something follows it, so a trailing comma disappears."""
        if self._pending_comma:
            self._out.extend(self._pending_comma)
            self._pending_comma.clear()

    def _open(self, container: Container) -> None:
        self._stack.append(container)
        self._keys.append(set())
        self._out.append(container.json_open)
        self._state = _FIRST

    def _close(self, at: int) -> int:
        self._pending_comma.clear()
        self._out.append(self._stack.pop().json_close)
        self._keys.pop()
        self._end_value()
        return at + 1

    def _end_value(self) -> None:
        self._state = _AFTER if self._stack else _DONE
        if self._discard_depth and len(self._stack) == self._discard_depth:
            self._out, self._saved_out, self._discard_depth = self._saved_out, [], 0

    def _start_string(self, quote: Quote, at: int, is_key: bool) -> int:
        self._quote = quote
        self._is_key = is_key
        if not is_key:
            self._start_item()
            self._out.append('"')
        self._state = _STRING
        return at + len(quote.open)

    def _read_string(self, text: str, at: int, at_end: bool) -> int:
        quote = self._quote
        match = quote.run.match(text, at)
        end = match.end() if match else at
        if end > at:
            piece = text[at:end]
            self._write(piece if quote.escapes is Escapes.JSON else escape_text(piece))
            at = end
        if at >= len(text):
            return at
        if text.startswith(quote.close, at):
            end = at + len(quote.close)
            if not quote.ends_before or self._is_key:
                return self._end_string(end)
            if text[end : end + 1] in quote.ends_before:
                # The character after the quote decides whether it closes the string, so wait for it.
                return at if end >= len(text) and not at_end else self._end_string(end)
        char = text[at]
        if char == "\\" and quote.escapes is not Escapes.NONE:
            return self._read_escape(text, at, at_end)
        if not at_end and len(text) - at < len(quote.close) and quote.close.startswith(text[at:]):
            return at
        # A raw control character, or the first character of a longer closing quote: part of the string, escaped.
        self._write(escape_text(char))
        return at + 1

    def _read_escape(self, text: str, at: int, at_end: bool) -> int:
        escape = read_escape(text, at, self._quote.escapes, at_end)
        if escape is None:
            return at
        if not escape.size:
            return self._fail(at, f"bad escape {text[at : at + 2]!r} in a string")
        self._write(escape.json)
        return at + escape.size

    def _write(self, json: str) -> None:
        (self._key if self._is_key else self._out).append(json)

    def _end_string(self, at: int) -> int:
        if self._is_key:
            return self._end_key(at)
        self._out.append('"')
        self._end_value()
        return at

    def _end_key(self, at: int) -> int:
        """Write a complete key. Only a complete key can be compared with those that the object already has."""
        key = "".join(self._key)
        self._key.clear()
        self._is_key = False
        if key in self._keys[-1] and not self._discard_member(key):
            return self._fail(at, f'the key "{key}" occurs twice')
        self._keys[-1].add(key)
        self._start_item()
        self._out.append(f'"{key}"')
        self._state = _ASSIGN
        return at

    def _discard_member(self, key: str) -> bool:
        depth = len(self._stack)
        if depth <= self._strict_depth:
            return False
        self.duplicate_keys.append(key)
        if not self._discard_depth:
            self._saved_out, self._out, self._discard_depth = self._out, [], depth
        return True

    def _read_run(self, text: str, at: int) -> int:
        match = (_WORD if self._state == _WORDS else BARE_KEY).match(text, at)
        end = match.end() if match else at
        if end > at:
            self._key.append(text[at:end])
        return end

    def _finish_run(self) -> None:
        word = "".join(self._key)
        if self._state == _BARE:
            if not word:
                self._fail(0, "expected a key")
                return
            self._key[:] = [escape_text(word)]
            self._end_key(0)
            return
        self._key.clear()
        json = self._notation.constants.get(word) or (word if _NUMBER.fullmatch(word) else None)
        if json is None:
            self._fail(0, f"{word[:40]!r} is not a value")
            return
        self._out.append(json)
        self._end_value()

    def _fail(self, at: int, problem: str) -> int:
        self._state = _BAD
        self.problem = problem
        return at


def normalize_json(json_text: str) -> str:
    """The normalized form of a JSON text, with numbers as written. Raises `ValueError` if it is not JSON."""
    reader = Reader()
    at = reader.read(json_text, 0, True)
    rest = _SPACE.match(json_text, at)
    if not reader.is_done or (rest and rest.end() < len(json_text)):
        raise ValueError(reader.problem or "the JSON text is cut off or followed by something else")
    return reader.take()
