"""Options of OpenAI's APIs that change what a model generates, and that only some engines have.

Ferrule carries none of them out itself. It sends them to an engine that has them (`Traits.options`); for any other
engine they are reported as ignored. `logprobs` is not among them: the probabilities belong to the engine's tokens,
and the text that a client gets is not cut at those. Calls are taken out of it, text is held while it may begin a call,
and special tokens are decoded, so no list of tokens would be that of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ferrule.dialects.field import Field

_MAX_BIAS = 100
_MAX_PENALTY = 2
"""As in OpenAI's API."""


def number_between(least: float, most: float) -> Callable[[Field], float]:
    """Return a reader of numbers that refuses those out of bounds."""

    def read(field: Field) -> float:
        number = field.number()
        if not least <= number <= most:
            raise field.refusal(f"must be between {least} and {most}", "Leave it out for the default.")
        return number

    return read


read_penalty = number_between(-_MAX_PENALTY, _MAX_PENALTY)
_read_one_bias = number_between(-_MAX_BIAS, _MAX_BIAS)


def _is_bias(value: Any) -> bool:
    return value.__class__ in (int, float) and -_MAX_BIAS <= value <= _MAX_BIAS


def read_bias(field: Field) -> dict[str, float]:
    """Read `logit_bias`. A `Field` is made only of a faulty entry: there may be one for each token of a vocabulary."""
    biases = field.object()
    fault = next((token for token, value in biases.items() if not _is_bias(value)), None)
    if fault is not None:
        _read_one_bias(Field(biases[fault], f"{field.path}.{fault}"))
    return dict(biases)


def _read_object(field: Field) -> dict[str, Any]:
    field.require_json()
    return field.object()


ENGINE_OPTIONS: Mapping[str, Callable[[Field], Any]] = {
    "frequency_penalty": read_penalty,
    "logit_bias": read_bias,
    "prediction": _read_object,
    "presence_penalty": read_penalty,
    "reasoning_effort": Field.string,
    "service_tier": Field.string,
    "verbosity": Field.string,
}
"""By their names in the chat API, which `ToolCallRequest.engine_options` uses too."""
DEFAULT_OPTIONS = frozenset(ENGINE_OPTIONS) - {"service_tier"}
"""Those that clouds get unless the operator names others: no client chooses a dearer tier on the operator's key."""
_IN_RESPONSES: Mapping[str, tuple[str, ...]] = {
    "reasoning_effort": ("reasoning", "effort"),
    "service_tier": ("service_tier",),
    "verbosity": ("text", "verbosity"),
}
OF_RESPONSES = frozenset(_IN_RESPONSES)
"""Those that the Responses API has."""
_NAMES = {name: name for name in ENGINE_OPTIONS} | {".".join(path): name for name, path in _IN_RESPONSES.items()}


def read_chat_options(body: Mapping[str, Any]) -> dict[str, Any]:
    """Read the options of a chat request. They do not count as read: whether anyone has them, its engine says."""
    root = Field(body)
    return {name: read(root[name]) for name, read in ENGINE_OPTIONS.items() if root[name].is_given}


def read_responses_options(body: Mapping[str, Any]) -> dict[str, Any]:
    """Read the options of a request of the Responses API, as `read_chat_options` does."""
    options: dict[str, Any] = {}
    for name, path in _IN_RESPONSES.items():
        field = Field(body)
        for key in path:
            field = field[key] if field.is_given else field
        if field.is_given:
            options[name] = ENGINE_OPTIONS[name](field)
    return options


def add_responses_options(body: dict[str, Any], options: Mapping[str, Any]) -> None:
    """Write options into a body of the Responses API. Its objects may be shared, so they are replaced."""
    for name, value in options.items():
        *outer, last = _IN_RESPONSES[name]
        target = body
        for key in outer:
            target[key] = {**target.get(key, {})}
            target = target[key]
        target[last] = value


@dataclass(frozen=True, slots=True)
class SortedOptions:
    """Which options an engine gets, and what is still ignored."""

    sent: dict[str, Any]
    ignored: tuple[str, ...]


def sort_options(options: Mapping[str, Any], ignored: Iterable[str], taken: frozenset[str]) -> SortedOptions:
    """Keep the options that an engine has, and stop reporting these as ignored.

    Example:
        sort_options({"verbosity": "low"}, ["verbosity", "zz"], frozenset({"verbosity"})).ignored  # ("zz",)
    """
    sent = {name: value for name, value in options.items() if name in taken}
    return SortedOptions(sent, tuple(path for path in ignored if _NAMES.get(path) not in sent))
