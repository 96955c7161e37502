"""What a stream must not omit, because a client would fail: each case was found with the real clients.

An entry of a table is one omission and how to detect it in a stream. Independent of clients and gateways.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from lab.gateway_recorder import ServerSentEvent

Omission = Callable[[Sequence[ServerSentEvent], Mapping[str, Any]], bool]
"""Whether a stream has the omission, given its events and the request."""

_SENT_ONCE: Final = ("id", "type")


def omissions(api: str, events: Sequence[ServerSentEvent], request: Mapping[str, Any] | None = None) -> list[str]:
    """All omissions of a stream, by name. A stream that ended with an error is checked up to there."""
    return [f"{api}: {name}" for name, is_left_out in TABLES[api].items() if is_left_out(events, request or {})]


def _values(events: Sequence[ServerSentEvent]) -> list[dict[str, Any]]:
    return [one.value for one in events if not one.is_done]


def _has_failed(events: Sequence[ServerSentEvent]) -> bool:
    return any("error" in value or value.get("type") in ("error", "response.failed") for value in _values(events))


# OpenAI's chat


def _chunks(events: Sequence[ServerSentEvent]) -> list[dict[str, Any]]:
    return [value for value in _values(events) if "error" not in value]


def _fragments(events: Sequence[ServerSentEvent]) -> list[dict[str, Any]]:
    deltas = [choice["delta"] for chunk in _chunks(events) for choice in chunk["choices"]]
    return [part for delta in deltas for part in delta.get("tool_calls") or ()]


def _repeats_its_head(events: Sequence[ServerSentEvent], _: Mapping[str, Any]) -> bool:
    met: set[Any] = set()
    for part in _fragments(events):
        is_first = part.get("index") not in met
        met.add(part.get("index"))
        named = [part.get(key) for key in _SENT_ONCE] + [part.get("function", {}).get("name")]
        if all(named) != is_first or any(named) != is_first:
            return True
    return False


def _indices(events: Sequence[ServerSentEvent]) -> list[Any]:
    return [part.get("index") for part in _fragments(events)]


def _skips_an_index(events: Sequence[ServerSentEvent], _: Mapping[str, Any]) -> bool:
    indices = [index for index in _indices(events) if index is not None]
    steps = [after - before for before, after in itertools.pairwise(indices)]
    return bool(indices) and (indices[0] != 0 or any(step not in (0, 1) for step in steps))


def _ends_with_more(events: Sequence[ServerSentEvent], _: Mapping[str, Any]) -> bool:
    """The finish reason must be alone in the last chunk that has a choice."""
    choices: list[dict[str, Any]] = [choice for chunk in _chunks(events) for choice in chunk["choices"]]
    reasons = [choice["finish_reason"] for choice in choices if choice["finish_reason"]]
    if _has_failed(events):
        return bool(reasons)
    last: dict[str, Any] = choices[-1] if choices else {}
    return len(reasons) != 1 or not last.get("finish_reason") or bool(last.get("delta"))


def _misses_usage(events: Sequence[ServerSentEvent], request: Mapping[str, Any]) -> bool:
    options: dict[str, Any] = request.get("stream_options") or {}
    if not options.get("include_usage") or _has_failed(events):
        return False
    chunks = _chunks(events)
    return not chunks or chunks[-1]["choices"] != [] or not chunks[-1].get("usage")


def _chat_ids(events: Sequence[ServerSentEvent]) -> set[Any]:
    return {chunk.get("id") for chunk in _chunks(events)}


CHAT: Final[Mapping[str, Omission]] = {
    "a call's id, type and name are in its first fragment and in no other": _repeats_its_head,
    "a fragment has an index": lambda events, _: None in _indices(events),
    "indices ascend from 0 without gaps, one call after the other": _skips_an_index,
    "the finish reason comes once, alone, and last": _ends_with_more,
    "every chunk has the same id": lambda events, _: len(_chat_ids(events)) != 1 or None in _chat_ids(events),
    "usage comes last if it was requested": _misses_usage,
    "the stream ends with [DONE]": lambda events, _: not _has_failed(events) and not (events and events[-1].is_done),
}

# OpenAI's Responses


def _types(events: Sequence[ServerSentEvent]) -> list[str]:
    return [value.get("type", "") for value in _values(events)]


def _of(events: Sequence[ServerSentEvent], *types: str) -> list[dict[str, Any]]:
    return [value for value in _values(events) if value.get("type") in types]


def _numbers_wrong(events: Sequence[ServerSentEvent], _: Mapping[str, Any]) -> bool:
    numbers = [value.get("sequence_number") for value in _values(events)]
    return None in numbers or any(
        after <= before for before, after in itertools.pairwise(numbers) if before is not None
    )


def _deltas_before(opening: str, endings: tuple[str, ...], keys: tuple[str, ...]) -> Omission:
    """An event refers to something that was not opened before."""

    def is_left_out(events: Sequence[ServerSentEvent], _: Mapping[str, Any]) -> bool:
        open_keys: set[tuple[Any, ...]] = set()
        for value in _values(events):
            type = value.get("type", "")
            key = tuple(value.get(one) for one in keys)
            if type == opening:
                open_keys.add(key)
            elif type.endswith(endings) and key not in open_keys:
                return True
        return False

    return is_left_out


def _missing_ending(opening: str, ending: str) -> Omission:
    def is_left_out(events: Sequence[ServerSentEvent], _: Mapping[str, Any]) -> bool:
        if _has_failed(events):
            return False
        return len(_of(events, opening)) != len(_of(events, ending))

    return is_left_out


def _arguments_undone(events: Sequence[ServerSentEvent], _: Mapping[str, Any]) -> bool:
    started = {value["item_id"] for value in _of(events, "response.function_call_arguments.delta")}
    ended = {value["item_id"] for value in _of(events, "response.function_call_arguments.done")}
    return not _has_failed(events) and not started <= ended


def _response_ids(events: Sequence[ServerSentEvent]) -> set[Any]:
    return {value["response"].get("id") for value in _values(events) if "response" in value}


def _item_ids_differ(events: Sequence[ServerSentEvent], _: Mapping[str, Any]) -> bool:
    ids: dict[Any, set[Any]] = {}
    for value in _of(events, "response.output_item.added", "response.output_item.done"):
        ids.setdefault(value["output_index"], set()).add(value["item"].get("id"))
    for value in _of(events, "response.completed"):
        for index, item in enumerate(value["response"]["output"]):
            ids.setdefault(index, set()).add(item.get("id"))
    return any(len(item_ids) != 1 or None in item_ids for item_ids in ids.values())


_ENDINGS: Final = ("response.completed", "response.incomplete", "response.failed", "error")
_ITEM_DELTAS: Final = ("text.delta", "arguments.delta", "content_part.added")

RESPONSES: Final[Mapping[str, Omission]] = {
    "every event is named": lambda events, _: any(
        one.name != one.value.get("type") for one in events if not one.is_done
    ),
    "every event has a sequence number, and they ascend": _numbers_wrong,
    "response.created comes first": lambda events, _: _types(events)[:1] != ["response.created"],
    "an item is added before other events refer to it": _deltas_before(
        "response.output_item.added", _ITEM_DELTAS, ("output_index",)
    ),
    "a part is added before its text": _deltas_before(
        "response.content_part.added", ("output_text.delta",), ("output_index", "content_index")
    ),
    "arguments end with a done event": _arguments_undone,
    "every item ends with a done event": _missing_ending("response.output_item.added", "response.output_item.done"),
    "the last event ends the response": lambda events, _: not _types(events) or _types(events)[-1] not in _ENDINGS,
    "the response keeps its id": lambda events, _: len(_response_ids(events)) != 1 or None in _response_ids(events),
    "an item keeps its id": _item_ids_differ,
}

# Anthropic's Messages


def _blocks_disordered(events: Sequence[ServerSentEvent], _: Mapping[str, Any]) -> bool:
    starts = [value.get("index") for value in _of(events, "content_block_start")]
    return starts != list(range(len(starts)))


def _block_left_open(events: Sequence[ServerSentEvent], _: Mapping[str, Any]) -> bool:
    """One block at a time: all events between its start and its stop belong to it."""
    now: Any = None
    for value in _values(events):
        match value.get("type"):
            case "content_block_start" if now is None:
                now = value.get("index")
            case "content_block_stop" if now == value.get("index") and now is not None:
                now = None
            case "content_block_delta" if now == value.get("index") and now is not None:
                pass
            case "content_block_start" | "content_block_stop" | "content_block_delta":
                return True
            case _:
                pass
    return now is not None and not _has_failed(events)


def _input_sent_early(events: Sequence[ServerSentEvent], _: Mapping[str, Any]) -> bool:
    blocks = [value["content_block"] for value in _of(events, "content_block_start")]
    return any(block.get("input") != {} for block in blocks if block["type"] == "tool_use")


def _usage_missing(events: Sequence[ServerSentEvent], _: Mapping[str, Any]) -> bool:
    counts = [value.get("usage", {}).get("output_tokens") for value in _of(events, "message_delta")]
    return not _has_failed(events) and (not counts or None in counts)


def _message_stop_missing(events: Sequence[ServerSentEvent], _: Mapping[str, Any]) -> bool:
    return not _has_failed(events) and _types(events)[-1:] != ["message_stop"]


def _message_start_not_first(events: Sequence[ServerSentEvent], _: Mapping[str, Any]) -> bool:
    # A ping may come at any time, and does if the first token takes long.
    return [type for type in _types(events) if type != "ping"][:1] != ["message_start"]


MESSAGES: Final[Mapping[str, Omission]] = {
    "every event is named": lambda events, _: any(one.is_done or one.name != one.value.get("type") for one in events),
    "message_start comes first": _message_start_not_first,
    "blocks begin in the order of their indices": _blocks_disordered,
    "a block is open while events refer to it, and one at a time": _block_left_open,
    "a call's input begins empty": _input_sent_early,
    "the output tokens are reported at the end": _usage_missing,
    "message_stop comes last": _message_stop_missing,
}

TABLES: Final[Mapping[str, Mapping[str, Omission]]] = {"chat": CHAT, "responses": RESPONSES, "messages": MESSAGES}
