"""Registry: makes an engine from one string.

Examples are `llama:model.gguf?threads=2` and `openai:smol?url=http://127.0.0.1:8000/v1`. The part before the colon is
the engine's name, the part after it is its argument (a URL, a model name or a path), and the part after the question
mark is a list of options, each `name=value`, with %-escapes for & and %. A package adds engines through the entry-point
group "ferrule.engines": a callable that takes the argument and the options as keywords, and returns an Engine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import entry_points
from typing import Any
from urllib.parse import unquote

from ferrule.core.boolean_text import parse_boolean
from ferrule.core.media import to_media_kinds
from ferrule.core.reply import Reply
from ferrule.engines.anthropic import anthropic
from ferrule.engines.chat.engine import ChatOptions
from ferrule.engines.engine import Engine
from ferrule.engines.fake import FakeEngine
from ferrule.engines.http import SILENT_FIRST, Deadlines
from ferrule.engines.hub import HubModel, fetch_model
from ferrule.engines.llama import POOLINGS, llama
from ferrule.engines.llama_server import llama_server
from ferrule.engines.ollama import ollama
from ferrule.engines.openai import OPENAI, openai
from ferrule.engines.providers import PROVIDERS, provider_engine
from ferrule.engines.sglang import sglang
from ferrule.engines.text.engine import TextOptions
from ferrule.engines.text.prompt import FallbackMode
from ferrule.engines.vllm import vllm
from ferrule.errors import DefinitionError
from ferrule.wire.rule_builder import ReasoningMode

ENTRY_POINTS = "ferrule.engines"

# An address is recognised by its port, or as this machine. A name alone may as well be that of a model.
_ADDRESS = re.compile(r"(?:localhost|[\d.]+|(?:[\w.\-]+|\[[\da-fA-F:]+\]):\d+)(?::\d+)?(?:/.*)?")

OptionParser = Callable[[str], Any]
"""Parses an option's text; raises `ValueError` or `KeyError` if the text is not valid."""


def _parse_bool_or_text(text: str) -> bool | str:
    try:
        return parse_boolean(text)
    except ValueError:
        return text


def _parse_url(text: str) -> str:
    """Complete an address without a scheme, as people type it: 127.0.0.1:8000."""
    if "://" in text:
        return text
    if not _ADDRESS.fullmatch(text):
        raise ValueError(f"{text!r} is not a URL")
    return f"http://{text}"


def _parse_pooling(text: str) -> str:
    if text not in POOLINGS:
        raise ValueError(f"{text!r} is not one of {', '.join(POOLINGS)}")
    return text


def _parse_list(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _parse_media(text: str) -> frozenset[str]:
    try:
        return to_media_kinds(text)
    except DefinitionError as unknown:
        raise ValueError(unknown.message) from unknown


@dataclass(frozen=True, slots=True)
class _OptionGroup:
    """Options that an engine takes as one object, which `build` makes from them."""

    keyword: str
    build: Callable[..., Any]
    parsers: Mapping[str, OptionParser]


# What follows the colon, for error messages.
_ARGUMENT_NAMES = {
    **{"URL": "a URL", "MODEL": "a model name", "PATH": "a model path", "TEXT": "a text"},
    "CAPABILITY": "a capability, such as llm.chat@2.0",
    "OWNER/NAME": "a repository of models",
}

_TEXT = _OptionGroup(
    "options",
    TextOptions,
    {
        "format": str,
        "target": str,
        "fallback_mode": FallbackMode,
        "reasoning": ReasoningMode,
        "is_constrained": parse_boolean,
        "any_order": parse_boolean,
        "reads_drift": parse_boolean,
        "repairs": int,
        "skips": parse_boolean,
        "max_tokens": int,
    },
)
_CHAT = _OptionGroup(
    "options",
    ChatOptions,
    {"repairs": int, "is_streamed": parse_boolean, "reads_drift": parse_boolean, "media": _parse_media},
)
_DEADLINES = _OptionGroup(
    "deadlines",
    Deadlines,
    {"connect": float, "first": float, "between": float, "total": float, "tries": int, "pause": float},
)
_SILENT_DEADLINES = replace(_DEADLINES, build=partial(Deadlines, first=SILENT_FIRST))


@dataclass(frozen=True, slots=True, kw_only=True)
class _EngineEntry:
    """An engine that can be loaded. `argument` names what follows the colon, `install` is its install command."""

    factory: Callable[..., Engine]
    argument: str
    install: str = ""
    default_url: str = ""
    """The address that is used if none is given, for engines that have one."""
    groups: tuple[_OptionGroup, ...] = ()
    parsers: Mapping[str, OptionParser] = field(default_factory=dict[str, OptionParser])

    @property
    def all_parsers(self) -> dict[str, OptionParser]:
        return {**self.parsers, **{name: parser for group in self.groups for name, parser in group.parsers.items()}}

    def build(self, argument: str, options: Mapping[str, Any]) -> Engine:
        settings = {name: value for name, value in options.items() if name in self.parsers}
        for group in self.groups:
            group_options = {name: value for name, value in options.items() if name in group.parsers}
            if group_options:
                settings[group.keyword] = group.build(**group_options)
        return self.factory(argument, **settings)


def _fake_engine(text: str, times: int = 10_000) -> FakeEngine:
    """An engine that answers with the text, up to `times` times."""
    return FakeEngine([Reply.of(text)] * times)


def _bus_engine(capability: str, **options: Any) -> Engine:
    # The package is above engines: it is imported when it is first used.
    from ferrule.llm_chat.engine import bus

    return bus(capability, **options)


def _hub_engine(repository: str, hub: str = "", cache: str = "", **settings: Any) -> Engine:
    return llama(fetch_model(HubModel.parse(repository), hub=hub, cache=cache), **settings)


_HTTP = 'pip install "ferrule[http]"'
_OVER_HTTP: dict[str, Any] = {"argument": "URL", "install": _HTTP, "groups": (_TEXT, _DEADLINES)}
_SILENT: dict[str, Any] = {**_OVER_HTTP, "groups": (_TEXT, _SILENT_DEADLINES)}
_BY_API: dict[str, Any] = {"argument": "MODEL", "install": _HTTP, "groups": (_CHAT, _DEADLINES)}
_LLAMA_OPTIONS = {"threads": int, "slots": int, "context": int, "gpu_layers": int, "embeddings": _parse_pooling}
_API_OPTIONS: dict[str, OptionParser] = {"url": _parse_url, "key": str, "reasoning": parse_boolean}

ENGINES: dict[str, _EngineEntry] = {
    "anthropic": _EngineEntry(
        factory=anthropic,
        **_BY_API,
        parsers={**_API_OPTIONS, "version": str, "strict": parse_boolean, "tool_search": parse_boolean},
    ),
    "bus": _EngineEntry(
        factory=_bus_engine,
        argument="CAPABILITY",
        install='pip install "ferrule[nats]"',
        parsers={
            **dict.fromkeys(("nats", "tenant", "key", "principal", "credentials", "inbox"), str),
            **{"total": float, "tries": int},
        },
    ),
    "fake": _EngineEntry(factory=_fake_engine, argument="TEXT", parsers={"times": int}),
    "hf": _EngineEntry(
        factory=_hub_engine,
        argument="OWNER/NAME",
        install='pip install "ferrule[hf]"',
        groups=(_TEXT,),
        parsers={**_LLAMA_OPTIONS, "hub": _parse_url, "cache": str},
    ),
    "llama": _EngineEntry(
        factory=llama, argument="PATH", install='pip install "ferrule[llama]"', groups=(_TEXT,), parsers=_LLAMA_OPTIONS
    ),
    "llama-server": _EngineEntry(factory=llama_server, **_OVER_HTTP, parsers={"key": str}),
    "ollama": _EngineEntry(factory=ollama, **_BY_API, parsers={**_API_OPTIONS, "think": _parse_bool_or_text}),
    "openai": _EngineEntry(
        factory=openai,
        default_url=OPENAI,
        **_BY_API,
        parsers={
            **_API_OPTIONS,
            **{"api": str, "honours": _parse_list, "takes": _parse_list, "strict": parse_boolean},
            "tool_search": parse_boolean,
        },
    ),
    **{
        name: _EngineEntry(
            factory=partial(provider_engine, name=name),
            default_url=provider.url,
            **_BY_API,
            parsers={**_API_OPTIONS, "strict": parse_boolean},
        )
        for name, provider in PROVIDERS.items()
    },
    "sglang": _EngineEntry(factory=sglang, **_SILENT, parsers={"key": str, "checkpoint": str}),
    "vllm": _EngineEntry(factory=vllm, **_SILENT, parsers={"key": str, "model": str, "checkpoint": str}),
}


IN_PROCESS = frozenset({"hf", "llama"})
"""The engines that load the model into this process."""


def load_engine(name: str, **options: Any) -> Engine:
    """Make the engine that the string names. Keywords are the same options and take precedence over the string.

    Example:
        from ferrule import load_engine

        local = load_engine("llama:model.gguf?threads=4")
        remote = load_engine("openai:gpt-4o-mini", key="...")
        server = load_engine("vllm:127.0.0.1:8000", max_tokens=512)
    """
    spec = parse_engine_spec(name)
    merged = {**spec.options, **options}
    if spec.kind in ENGINES:
        entry = ENGINES[spec.kind]
        settings = _parse_settings(spec.kind, entry, spec.argument, merged)
        return entry.build(_parse_argument(spec.kind, entry, spec.argument), settings)
    for point in entry_points(group=ENTRY_POINTS):
        if point.name == spec.kind:
            return point.load()(spec.argument, **merged)
    raise _unknown_engine(spec.kind)


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """The parts of an engine string."""

    kind: str
    argument: str
    options: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


def parse_engine_spec(name: str) -> EngineSpec:
    kind, _, rest = name.partition(":")
    argument, _, query = rest.partition("?")
    return EngineSpec(kind, argument, _parse_query(query, f"{kind}:{argument}"))


def address_and_model(name: str) -> tuple[str, str]:
    """Return the address and the model that an engine string names; each is empty if the string does not name it."""
    spec = parse_engine_spec(name)
    entry = ENGINES.get(spec.kind)
    if entry is None:
        return "", ""
    values = {"url": entry.default_url, **spec.options, entry.argument.lower(): spec.argument}
    url = values.get("url", "")
    return f"http://{url}" if _ADDRESS.fullmatch(url) else url, values.get("model", "")


def check_engine_spec(name: str) -> None:
    """Raise the `DefinitionError` that `load_engine` would raise for the string, without making an engine."""
    spec = parse_engine_spec(name)
    if spec.kind in ENGINES:
        _parse_settings(spec.kind, ENGINES[spec.kind], spec.argument, spec.options)
        _parse_argument(spec.kind, ENGINES[spec.kind], spec.argument)
    elif all(point.name != spec.kind for point in entry_points(group=ENTRY_POINTS)):
        raise _unknown_engine(spec.kind)


def _unknown_engine(kind: str) -> DefinitionError:
    return DefinitionError(f"unknown engine {kind!r}", code="unknown_engine", hint=_known_engines())


def _parse_settings(kind: str, entry: _EngineEntry, argument: str, options: Mapping[str, Any]) -> dict[str, Any]:
    if not argument:
        form = f"{kind}:{entry.argument}"
        raise DefinitionError(f"engine {kind!r} needs {_ARGUMENT_NAMES[entry.argument]}: {form}", hint=f"Write {form}.")
    parsers = entry.all_parsers
    unknown = [name for name in options if name not in parsers]
    if unknown:
        raise DefinitionError(
            f"{kind} has no option {', '.join(map(repr, unknown))}", hint=f"It has: {', '.join(sorted(parsers))}."
        )
    return {name: _parse_value(name, value, parsers[name]) for name, value in options.items()}


def _parse_argument(kind: str, entry: _EngineEntry, argument: str) -> str:
    if entry.argument == "OWNER/NAME":
        HubModel.parse(argument)
    if entry.argument != "URL":
        return argument
    try:
        return _parse_url(argument)
    except ValueError:
        raise DefinitionError(
            f"engine {kind!r} needs a URL, not {argument!r}", hint=f"Write {kind}:http://HOST:PORT."
        ) from None


def _parse_value(name: str, value: Any, parser: OptionParser) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return parser(value)
    except (ValueError, KeyError) as damage:
        raise DefinitionError(
            f"option {name!r} cannot be {value!r}", hint="See the engine's page in the documentation."
        ) from damage


def _parse_query(query: str, engine: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for pair in filter(None, query.split("&")):
        name, equals, value = pair.partition("=")
        if not equals:
            # The message does not quote the part: it may be the rest of a key that contains &.
            message = f"the options after {engine}? contain a part without ="
            raise DefinitionError(message, hint="Write name=value, joined by &, and %26 for & in a value.")
        # `+` is not decoded as a space, as browsers do: API keys may contain it.
        options[name] = unquote(value)
    return options


def _known_engines() -> str:
    builtin = [
        f"{kind}:{entry.argument}" + (f" ({entry.install})" if entry.install else "") for kind, entry in ENGINES.items()
    ]
    others = sorted(point.name for point in entry_points(group=ENTRY_POINTS))
    return f"Known: {', '.join([*builtin, *others])}."
