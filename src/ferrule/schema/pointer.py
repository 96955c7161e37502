"""JSON pointers (RFC 6901) and how they are spelled inside a `$ref`. Knows nothing of schemas."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote, unquote

# What RFC 3986 lets stand in a fragment besides letters and digits.
_FRAGMENT_SAFE = "/~!$&'()*+,;=:@-._?"


def escape(token: str) -> str:
    return token.replace("~", "~0").replace("/", "~1")


def pointer_to(tokens: Iterable[str | int]) -> str:
    """The pointer that walks through these keys and indexes; no tokens is "", the whole."""
    return "".join("/" + escape(str(token)) for token in tokens)


def tokens_of(pointer: str) -> tuple[str, ...]:
    """The keys of a pointer, unescaped."""
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:])


def ref_to(pointer: str) -> str:
    """How a `$ref` in the same document names the place."""
    return "#" + quote(pointer, safe=_FRAGMENT_SAFE)


def from_fragment(fragment: str) -> str:
    """The pointer that the part of a `$ref` after "#" spells, in one spelling whatever was percent-encoded."""
    return pointer_to(tokens_of(unquote(fragment)))
