"""OpenAI's text completions and embeddings, which are forwarded: what a client may send, and what an engine answers.

Only fields of the tables are forwarded. Engines have others that must not come from a client: llama-server's
`n_predict` overrides `max_tokens`, and vLLM's `prompt_embeds` is read as a serialized tensor. What is in no table is
reported as ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NoReturn, cast

from ferrule.core.event import Finish, FinishReason, Usage
from ferrule.core.forward import ForwardApi, ForwardedPart, ForwardRequest
from ferrule.core.json_text import loads
from ferrule.dialects.engine_options import number_between, read_bias, read_penalty
from ferrule.dialects.field import Field
from ferrule.dialects.ignored_fields import COMPLETIONS, EMBEDDINGS, ignored_fields, tracked
from ferrule.dialects.json_stream import object_of
from ferrule.dialects.lenient_json import count, entries, mapping, message_of
from ferrule.dialects.sse import SseDecoder, SseSplitter, encode
from ferrule.errors import EngineError

_DONE = "[DONE]"
DEFAULT_MAX_TOKENS = 16
"""OpenAI's own default. Some engines have none, and generate until the context is full."""
_MAX_LOGPROBS = 20
_MAX_ANSWERS = 128
"""As in OpenAI's API."""

_Read = Callable[[Field], Any]
_AreValid = Callable[[Sequence[Any]], bool]


def _read_texts(field: Field) -> Any:
    """A text, a list of texts, a list of tokens, or a list of lists of tokens."""
    if isinstance(field.value, str):
        return field.value
    entries = field.list()
    if not entries:
        raise field.refusal("is empty", "Send a text, a list of texts, or tokens.")
    if isinstance(entries[0], str):
        return _read_strings(field)
    if isinstance(entries[0], list):
        return _read_all(field, _are_lists_of_tokens, _refuse_tokens)
    return _read_all(field, _are_tokens, _refuse_token)


def _read_all(field: Field, are_valid: _AreValid, refuse: Callable[[Field], NoReturn]) -> list[Any]:
    """Return the entries. A client may send a million, so they are checked together; a fault is found by halves."""
    entries = field.list()
    if are_valid(entries):
        return entries
    low, high = 0, len(entries)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if are_valid(entries[low:middle]) else (low, middle)
    return refuse(field.entry(low))


def _are_strings(entries: Sequence[Any]) -> bool:
    return {*map(type, entries)} <= {str}


def _are_tokens(entries: Sequence[Any]) -> bool:
    return {*map(type, entries)} <= {int} and min(entries, default=0) >= 0


def _are_lists_of_tokens(entries: Sequence[Any]) -> bool:
    return {*map(type, entries)} <= {list} and all(entries) and _are_tokens([*chain.from_iterable(entries)])


def _refuse_string(field: Field) -> NoReturn:
    raise field.refusal("must be a string", "Send a string here.")


def _refuse_token(field: Field) -> NoReturn:
    raise field.refusal("must be a token: a whole number, at least 0", "Send tokens only, or a text.")


def _refuse_tokens(field: Field) -> NoReturn:
    if not field.list():
        raise field.refusal("is empty", "Send at least one token, or a text.")
    _read_all(field, _are_tokens, _refuse_token)
    raise AssertionError("a list of tokens is valid")


def _read_strings(field: Field) -> list[str]:
    return _read_all(field, _are_strings, _refuse_string)


def _whole(least: int, most: int | None) -> _Read:
    def read(field: Field) -> int:
        number = field.integer()
        if number < least or (most is not None and number > most):
            bounds = f"at least {least}" if most is None else f"between {least} and {most}"
            raise field.refusal(f"must be {bounds}", "Leave it out for the default.")
        return int(number)

    return read


def _read_stream_options(field: Field) -> dict[str, bool]:
    return {"include_usage": field["include_usage"].or_else(Field.boolean, False)}


def _read_format(field: Field) -> str:
    return field.one_of({"float": "float", "base64": "base64"})


def _read_stop(field: Field) -> list[str]:
    return [field.value] if isinstance(field.value, str) else _read_strings(field)


_COMPLETION_FIELDS: Mapping[str, _Read] = {
    "prompt": _read_texts,
    "suffix": Field.string,
    "max_tokens": Field.positive,
    "temperature": number_between(0, 2),
    "top_p": number_between(0, 1),
    # Not OpenAI's, but every open engine has these two.
    "top_k": _whole(-1, 1_000_000),
    "min_p": number_between(0, 1),
    "n": _whole(1, _MAX_ANSWERS),
    "best_of": _whole(1, _MAX_ANSWERS),
    "echo": Field.boolean,
    "logprobs": _whole(0, _MAX_LOGPROBS),
    "logit_bias": read_bias,
    "presence_penalty": read_penalty,
    "frequency_penalty": read_penalty,
    "seed": _whole(-(2**63), 2**63 - 1),
    "stop": _read_stop,
    "stream": Field.boolean,
    "stream_options": _read_stream_options,
}
_EMBEDDING_FIELDS: Mapping[str, _Read] = {
    "input": _read_texts,
    "encoding_format": _read_format,
    "dimensions": _whole(1, None),
}


def read_completion(body: dict[str, Any]) -> ForwardRequest:
    """Read the body of `/v1/completions`."""
    root = tracked(body)
    fields = _read_fields(root, _COMPLETION_FIELDS)
    _require(root["prompt"], "Send the text to continue.")
    fields.setdefault("max_tokens", DEFAULT_MAX_TOKENS)
    is_streamed = bool(fields.get("stream"))
    if not is_streamed:
        # Servers refuse it where nothing is streamed.
        fields.pop("stream_options", None)
    return ForwardRequest(
        api=ForwardApi.COMPLETIONS,
        fields=fields,
        model=root["model"].optional(Field.string),
        is_streamed=is_streamed,
        answers=_text_count(fields["prompt"]) * max(fields.get("n", 1), fields.get("best_of", 1)),
        ignored=ignored_fields(root, COMPLETIONS),
    )


def read_embeddings(body: dict[str, Any]) -> ForwardRequest:
    """Read the body of `/v1/embeddings`."""
    root = tracked(body)
    fields = _read_fields(root, _EMBEDDING_FIELDS)
    _require(root["input"], "Send the text, or a list of texts.")
    return ForwardRequest(
        api=ForwardApi.EMBEDDINGS,
        fields=fields,
        model=root["model"].optional(Field.string),
        ignored=ignored_fields(root, EMBEDDINGS),
    )


def _require(field: Field, hint: str) -> None:
    if not field.is_given:
        raise field.refusal("is missing", hint)


def _read_fields(root: Field, table: Mapping[str, _Read]) -> dict[str, Any]:
    return {name: read(root[name]) for name, read in table.items() if root[name].is_given}


def _text_count(prompt: Any) -> int:
    is_many = isinstance(prompt, list) and not isinstance(prompt[0], int)
    return len(cast("list[Any]", prompt)) if is_many else 1


def _shown_answers(request: ForwardRequest) -> int:
    """How many choices the answer has. Of `best_of`, only `n` are shown."""
    return _text_count(request.fields["prompt"]) * int(request.fields.get("n", 1))


class ForwardedStream:
    """Checks a streamed answer and splits it into its events, byte for byte.

    An error that the engine reports inside is raised and not passed on, because it may say what only the operator may
    know. So is a stream that ends in the middle: joined to a good end it would look whole.
    """

    __slots__ = ("_decoder", "_finished", "_is_done", "_is_length", "_shown_answers", "_splitter", "_usage")

    def __init__(self, request: ForwardRequest) -> None:
        self._shown_answers = _shown_answers(request)
        self._splitter = SseSplitter()
        self._decoder = SseDecoder()
        self._finished: set[int] = set()
        self._is_length = False
        self._is_done = False
        self._usage: Usage | None = None

    def feed(self, data: bytes) -> Iterator[ForwardedPart]:
        """Yield the events that are complete now, each before the next one is read: that one may be an error."""
        for raw in self._splitter.feed(data):
            if self._is_done:
                # OpenAI's stream ends there.
                return
            self._read(raw)
            yield ForwardedPart(raw, self._finish() if self._is_done else None)

    def close(self) -> list[ForwardedPart]:
        """Return what is missing at the end. Raises `EngineError` if the stream ended before its answer did."""
        if self._is_done:
            return []
        rest = self._splitter.close()
        if rest.strip():
            # Some engines leave out the last empty line.
            rest += b"\n\n"
            self._read(rest)
        if self._is_done:
            return [ForwardedPart(rest, self._finish())]
        if len(self._finished) < self._shown_answers:
            raise EngineError(
                "connection lost: the engine's stream ended before its answer did",
                code="broken_off",
                hint="Check that no proxy cuts its answers off.",
            )
        return [ForwardedPart(rest + encode(_DONE), self._finish())]

    def _read(self, raw: bytes) -> None:
        for message in self._decoder.feed(raw):
            if message.data.strip() == _DONE:
                self._is_done = True
                return
            chunk = object_of(message.data)
            raise_on_error(chunk)
            self._usage = _usage_of(chunk) or self._usage
            for choice in entries(chunk.get("choices")):
                if choice.get("finish_reason"):
                    self._finished.add(count(choice.get("index")))
                    self._is_length = self._is_length or choice["finish_reason"] == "length"

    def _finish(self) -> Finish:
        return Finish(FinishReason.LENGTH if self._is_length else FinishReason.STOP, self._usage)


def whole_part(body: bytes) -> ForwardedPart:
    """Check an answer that was not streamed: it is an object without an error."""
    try:
        value = loads(body.decode())
    except (ValueError, RecursionError) as damage:
        raise EngineError(f"the engine did not answer with JSON: {body[:80]!r}") from damage
    if not isinstance(value, dict):
        raise EngineError(f"the engine did not answer with a JSON object: {body[:80]!r}")
    answer = cast("dict[str, Any]", value)
    raise_on_error(answer)
    reasons = {choice.get("finish_reason") for choice in entries(answer.get("choices"))}
    reason = FinishReason.LENGTH if "length" in reasons else FinishReason.STOP
    return ForwardedPart(body, Finish(reason, _usage_of(answer)))


def raise_on_error(message: Mapping[str, Any]) -> None:
    if message.get("error"):
        raise EngineError(f"the engine stopped: {message_of(message['error'])}", code="engine_refused")


def _usage_of(message: Mapping[str, Any]) -> Usage | None:
    usage = mapping(message.get("usage"))
    if not usage:
        return None
    cached = mapping(usage.get("prompt_tokens_details")).get("cached_tokens")
    return Usage(count(usage.get("prompt_tokens")), count(usage.get("completion_tokens")), count(cached))
