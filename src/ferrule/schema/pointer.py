"""JSON pointers (RFC 6901), and how they are written in a `$ref`. Does not depend on schemas."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote, unquote

# The characters that RFC 3986 allows in a fragment besides letters and digits.
_FRAGMENT_SAFE = "/~!$&'()*+,;=:@-._?"


def escape(token: str) -> str:
    """The token escaped for a JSON pointer."""
    return token.replace("~", "~0").replace("/", "~1")


def pointer_to(tokens: Iterable[str | int]) -> str:
    """The pointer for these keys and indexes. No tokens give "", the whole document."""
    return "".join("/" + escape(str(token)) for token in tokens)


def tokens_of(pointer: str) -> tuple[str, ...]:
    """The keys of a pointer, unescaped."""
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:])


def ref_to(pointer: str) -> str:
    """The `$ref` for a pointer into the same document."""
    return "#" + quote(pointer, safe=_FRAGMENT_SAFE)


def from_fragment(fragment: str) -> str:
    """The normalized pointer for the part of a `$ref` after "#", with percent-encoding resolved."""
    return pointer_to(tokens_of(unquote(fragment)))
