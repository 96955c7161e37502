"""What a server may do besides offering tools, as its entry in mcp.json says: samples, resources and prompts.

All of it is off unless the entry asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, cast
from urllib.parse import unquote

from ferrule.core.visible_text import is_hidden
from ferrule.errors import DefinitionError

_MAX_TOKENS = 32_768


@dataclass(frozen=True, slots=True)
class SamplingLimits:
    """The model that a server may ask, after an approval of each request, and how much it may answer."""

    model: str
    max_tokens: int = 1024
    seconds: float = 120.0


@dataclass(frozen=True, slots=True)
class ResourceAccess:
    """Which resources of a server the model may read: patterns of their URIs. `deny` takes precedence.

    Servers read a URI in their own way: they decode it, resolve its dots, and some leave out tabs. So a URI that could
    mean another one than it shows is not allowed, unless everything is.
    """

    allow: tuple[str, ...] = ("*",)
    deny: tuple[str, ...] = ()

    def allows(self, uri: str) -> bool:
        if self == ResourceAccess():
            return True
        spellings = {uri, unquote(uri), unquote(unquote(uri))}
        if uri != uri.strip() or any(map(_is_ambiguous, spellings)):
            return False
        # Schemes and hosts have no case, and so have many servers' paths.
        denied = [one.lower() for one in self.deny]
        return all(_matches(one, self.allow) and not _matches(one.lower(), denied) for one in spellings)


def _is_ambiguous(uri: str) -> bool:
    has_dots = any(part in (".", "..") for part in re.split("[/?#;]", uri))
    return has_dots or "\\" in uri or any(map(is_hidden, uri))


def _matches(uri: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(uri, one) or fnmatchcase(uri, _decoded(one)) for one in patterns)


def _decoded(pattern: str) -> str:
    # An encoded `*`, `?` or `[` stands for itself, and must not become a wildcard.
    return unquote(re.sub("%(?:2a|3f|5b)", lambda code: f"[{unquote(code[0])}]", pattern, flags=re.IGNORECASE))


def read_sampling(value: object) -> SamplingLimits | None:
    """Read the key `sampling`, such as `{"model": "smol", "maxTokens": 500}`."""
    if value is None or value is False:
        return None
    entry = _entry(value, "sampling", {"model", "maxTokens", "timeout"}, '{"model": "NAME"}')
    model = entry.get("model")
    if not isinstance(model, str) or not model:
        raise DefinitionError('"sampling" needs "model", the model that the server may ask')
    defaults = SamplingLimits(model)
    max_tokens = entry.get("maxTokens", defaults.max_tokens)
    if isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or not 1 <= max_tokens <= _MAX_TOKENS:
        raise DefinitionError(f'"maxTokens" must be a number from 1 to {_MAX_TOKENS}')
    milliseconds = entry.get("timeout", defaults.seconds * 1_000)
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float) or not milliseconds >= 1_000:
        raise DefinitionError('"timeout" must be a number of milliseconds, at least 1000')
    return SamplingLimits(model, max_tokens, milliseconds / 1_000)


def read_resources(value: object) -> ResourceAccess | None:
    """Read the key `resources`: true, or `{"allow": ["docs://*"], "deny": [...]}` with patterns of URIs."""
    if value is None or value is False:
        return None
    if value is True:
        return ResourceAccess()
    entry = _entry(value, "resources", {"allow", "deny"}, 'true, or {"allow": ["docs://*"]}')
    allow, deny = (_patterns(entry.get(key), key) for key in ("allow", "deny"))
    return ResourceAccess(("*",) if allow is None else allow, deny or ())


def read_prompts(value: object) -> bool:
    """Read the key `prompts`."""
    if not (value is None or isinstance(value, bool)):
        raise DefinitionError('"prompts" must be true or false')
    return value is True


def _entry(value: object, name: str, known: set[str], example: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise DefinitionError(f'"{name}" must be {example}')
    entry = cast("dict[str, Any]", value)
    unknown = entry.keys() - known
    if unknown:
        raise DefinitionError(f'"{name}" has an unknown key {min(unknown)!r}')
    return entry


def _patterns(value: object, key: str) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(one, str) and one for one in cast("list[object]", value)):
        raise DefinitionError(f'"{key}" of "resources" must be a list of patterns, such as "docs://*"')
    return tuple(cast("list[str]", value))
