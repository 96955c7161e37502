"""Pick: an engine from one string, such as `llama:model.gguf?threads=2` or `openai:smol?url=http://127.0.0.1:8000/v1`.

Before the colon stands the engine's name, after it what that engine is on, and after a question mark its options, each
`name=value`, with %-escapes where a value holds & or %. A package adds engines by the entry-point group
"ferrule.engines": a callable that takes what stands after the colon, and the options as keywords, and gives an Engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any
from urllib.parse import unquote

from ferrule.core.reply import Reply
from ferrule.engines.anthropic import anthropic
from ferrule.engines.chat.engine import ChatOptions
from ferrule.engines.engine import Engine
from ferrule.engines.fake import FakeEngine
from ferrule.engines.http import Deadlines
from ferrule.engines.llama import llama
from ferrule.engines.llama_server import llama_server
from ferrule.engines.ollama import ollama
from ferrule.engines.openai import OPENAI, openai
from ferrule.engines.sglang import sglang
from ferrule.engines.text.engine import TextOptions
from ferrule.engines.text.prompt import FallbackMode
from ferrule.engines.vllm import vllm
from ferrule.errors import DefinitionError
from ferrule.wire.rule_builder import ReasoningMode

ENTRY_POINTS = "ferrule.engines"
_TRUTH = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}

Read = Callable[[str], Any]
"""A value from its text; `ValueError` or `KeyError` where it is not one."""


def _truth(text: str) -> bool:
    return _TRUTH[text.lower()]


def _truth_or_word(text: str) -> bool | str:
    return _TRUTH.get(text.lower(), text)


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


@dataclass(frozen=True, slots=True)
class _Group:
    """Options that an engine takes as one value, which `make` builds from them."""

    keyword: str
    make: Callable[..., Any]
    reads: Mapping[str, Read]


_TEXT = _Group(
    "options",
    TextOptions,
    {
        "format": str,
        "target": str,
        "fallback_mode": FallbackMode,
        "reasoning": ReasoningMode,
        "is_constrained": _truth,
        "is_bounded": _truth,
        "any_order": _truth,
        "skips": _truth,
        "max_tokens": int,
    },
)
_CHAT = _Group("options", ChatOptions, {"repairs": int, "is_streamed": _truth})
_DEADLINES = _Group(
    "deadlines",
    Deadlines,
    {"connect": float, "first": float, "between": float, "total": float, "tries": int, "pause": float},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """An engine that can be picked. `on` says what stands after the colon, `install` what it needs."""

    make: Callable[..., Engine]
    on: str
    install: str = ""
    url: str = ""
    """Where it asks unless told otherwise, of those whose address may be left out."""
    groups: tuple[_Group, ...] = ()
    reads: Mapping[str, Read] = field(default_factory=dict[str, Read])

    @property
    def known(self) -> dict[str, Read]:
        return {**self.reads, **{name: read for group in self.groups for name, read in group.reads.items()}}

    def made(self, on: str, given: Mapping[str, Any]) -> Engine:
        settings = {name: value for name, value in given.items() if name in self.reads}
        for group in self.groups:
            own = {name: value for name, value in given.items() if name in group.reads}
            if own:
                settings[group.keyword] = group.make(**own)
        return self.make(on, **settings)


def _fake(text: str, times: int = 10_000) -> FakeEngine:
    """Answers with the text, so many times."""
    return FakeEngine([Reply.of(text)] * times)


_HTTP = 'pip install "ferrule[http]"'
_OVER_HTTP: dict[str, Any] = {"on": "URL", "install": _HTTP, "groups": (_TEXT, _DEADLINES)}
_BY_API: dict[str, Any] = {"on": "MODEL", "install": _HTTP, "groups": (_CHAT, _DEADLINES)}
_LLAMA_READS = {"threads": int, "slots": int, "context": int, "gpu_layers": int}
_ANY_API: dict[str, Read] = {"url": str, "key": str, "reasoning": _truth}

ENGINES: dict[str, _Entry] = {
    "anthropic": _Entry(make=anthropic, **_BY_API, reads={**_ANY_API, "version": str, "strict": _truth}),
    "fake": _Entry(make=_fake, on="TEXT", reads={"times": int}),
    "llama": _Entry(make=llama, on="PATH", install='pip install "ferrule[llama]"', groups=(_TEXT,), reads=_LLAMA_READS),
    "llama-server": _Entry(make=llama_server, **_OVER_HTTP, reads={"key": str}),
    "ollama": _Entry(make=ollama, **_BY_API, reads={**_ANY_API, "think": _truth_or_word}),
    "openai": _Entry(
        make=openai, url=OPENAI, **_BY_API, reads={**_ANY_API, "api": str, "honours": _words, "strict": _truth}
    ),
    "sglang": _Entry(make=sglang, **_OVER_HTTP, reads={"key": str, "checkpoint": str}),
    "vllm": _Entry(make=vllm, **_OVER_HTTP, reads={"key": str, "model": str, "checkpoint": str}),
}


def load_engine(name: str, **options: Any) -> Engine:
    """The engine that the string names. Keywords are the same options; where both give one, the keyword counts."""
    parts = parts_of(name)
    given = {**parts.options, **options}
    if parts.kind in ENGINES:
        entry = ENGINES[parts.kind]
        return entry.made(parts.on, _settings(parts.kind, entry, parts.on, given))
    for point in entry_points(group=ENTRY_POINTS):
        if point.name == parts.kind:
            return point.load()(parts.on, **given)
    raise _unknown(parts.kind)


@dataclass(frozen=True, slots=True)
class Parts:
    """What an engine's string says, before anything is made of it."""

    kind: str
    on: str
    options: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


def parts_of(name: str) -> Parts:
    kind, _, rest = name.partition(":")
    on, _, query = rest.partition("?")
    return Parts(kind, on, _options(query, f"{kind}:{on}"))


def place_of(name: str) -> tuple[str, str]:
    """The address and the model that an engine's string names; empty where it names none."""
    parts = parts_of(name)
    entry = ENGINES.get(parts.kind)
    if entry is None:
        return "", ""
    named = {"url": entry.url, **parts.options, entry.on.lower(): parts.on}
    return named.get("url", ""), named.get("model", "")


def check(name: str) -> None:
    """`DefinitionError` where `load_engine` would raise one for the string itself. Makes nothing and reaches nobody."""
    parts = parts_of(name)
    if parts.kind in ENGINES:
        _settings(parts.kind, ENGINES[parts.kind], parts.on, parts.options)
    elif all(point.name != parts.kind for point in entry_points(group=ENTRY_POINTS)):
        raise _unknown(parts.kind)


def _unknown(kind: str) -> DefinitionError:
    return DefinitionError(f"no engine is called {kind!r}", code="unknown_engine", hint=_known())


def _settings(kind: str, entry: _Entry, on: str, given: Mapping[str, Any]) -> dict[str, Any]:
    if not on:
        raise DefinitionError(f"{kind!r} does not say what it is on", hint=f"Write {kind}:{entry.on}.")
    known = entry.known
    strange = [name for name in given if name not in known]
    if strange:
        raise DefinitionError(
            f"{kind} has no option {', '.join(map(repr, strange))}", hint=f"It has: {', '.join(sorted(known))}."
        )
    return {name: _value(name, value, known[name]) for name, value in given.items()}


def _value(name: str, value: Any, read: Read) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return read(value)
    except (ValueError, KeyError) as damage:
        raise DefinitionError(f"the option {name!r} cannot be {value!r}", hint="See the engine's own page.") from damage


def _options(query: str, engine: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in filter(None, query.split("&")):
        name, equals, value = pair.partition("=")
        if not equals:
            # Not what stands there: it may be the rest of a key with & in it.
            told = f"something after {engine}? is no option"
            raise DefinitionError(told, hint="Write name=value, joined by &, with %26 for & in a value.")
        # Not + for a blank, as browsers do: keys hold it.
        found[name] = unquote(value)
    return found


def _known() -> str:
    own = [f"{kind}:{entry.on}" + (f" ({entry.install})" if entry.install else "") for kind, entry in ENGINES.items()]
    others = sorted(point.name for point in entry_points(group=ENTRY_POINTS))
    return f"Known: {', '.join([*own, *others])}."
