"""What a stream must not leave out, because a client breaks on it: found one by one with the real clients.

A row of a table is one omission and how it is seen in a stream. Knows no client and no gateway.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from lab.gateway_recorder import Sent

Row = Callable[[Sequence[Sent], Mapping[str, Any]], bool]
"""Whether a stream, by its events and by what was asked, has the omission."""

_TOLD_ONCE: Final = ("id", "type")


def omissions(api: str, sent: Sequence[Sent], asked: Mapping[str, Any] | None = None) -> list[str]:
    """Every omission of a whole stream, by its row's name. A stream that ended in an error is judged up to there."""
    return [f"{api}: {name}" for name, is_left_out in TABLES[api].items() if is_left_out(sent, asked or {})]


def _values(sent: Sequence[Sent]) -> list[dict[str, Any]]:
    return [one.value for one in sent if not one.is_done]


def _has_failed(sent: Sequence[Sent]) -> bool:
    return any("error" in value or value.get("type") in ("error", "response.failed") for value in _values(sent))


# OpenAI's chat


def _chunks(sent: Sequence[Sent]) -> list[dict[str, Any]]:
    return [value for value in _values(sent) if "error" not in value]


def _fragments(sent: Sequence[Sent]) -> list[dict[str, Any]]:
    deltas = [choice["delta"] for chunk in _chunks(sent) for choice in chunk["choices"]]
    return [part for delta in deltas for part in delta.get("tool_calls") or ()]


def _repeats_its_head(sent: Sequence[Sent], _: Mapping[str, Any]) -> bool:
    met: set[Any] = set()
    for part in _fragments(sent):
        is_first = part.get("index") not in met
        met.add(part.get("index"))
        named = [part.get(key) for key in _TOLD_ONCE] + [part.get("function", {}).get("name")]
        if all(named) != is_first or any(named) != is_first:
            return True
    return False


def _indices(sent: Sequence[Sent]) -> list[Any]:
    return [part.get("index") for part in _fragments(sent)]


def _skips_an_index(sent: Sequence[Sent], _: Mapping[str, Any]) -> bool:
    indices = [index for index in _indices(sent) if index is not None]
    steps = [after - before for before, after in itertools.pairwise(indices)]
    return bool(indices) and (indices[0] != 0 or any(step not in (0, 1) for step in steps))


def _ends_with_more(sent: Sequence[Sent], _: Mapping[str, Any]) -> bool:
    """The reason to stop stands alone in the last chunk that has a choice."""
    choices: list[dict[str, Any]] = [choice for chunk in _chunks(sent) for choice in chunk["choices"]]
    reasons = [choice["finish_reason"] for choice in choices if choice["finish_reason"]]
    if _has_failed(sent):
        return bool(reasons)
    last: dict[str, Any] = choices[-1] if choices else {}
    return len(reasons) != 1 or not last.get("finish_reason") or bool(last.get("delta"))


def _misses_usage(sent: Sequence[Sent], asked: Mapping[str, Any]) -> bool:
    options: dict[str, Any] = asked.get("stream_options") or {}
    if not options.get("include_usage") or _has_failed(sent):
        return False
    chunks = _chunks(sent)
    return not chunks or chunks[-1]["choices"] != [] or not chunks[-1].get("usage")


def _chat_ids(sent: Sequence[Sent]) -> set[Any]:
    return {chunk.get("id") for chunk in _chunks(sent)}


CHAT: Final[Mapping[str, Row]] = {
    "a call's id, type and name stand in its first fragment and in no other": _repeats_its_head,
    "a fragment has an index": lambda sent, _: None in _indices(sent),
    "indices ascend from 0 without gaps, one call after the other": _skips_an_index,
    "the finish reason comes once, alone, and last": _ends_with_more,
    "every chunk has the same id": lambda sent, _: len(_chat_ids(sent)) != 1 or None in _chat_ids(sent),
    "usage comes last where it was asked for": _misses_usage,
    "the stream says that it is done": lambda sent, _: not _has_failed(sent) and not (sent and sent[-1].is_done),
}

# OpenAI's Responses


def _types(sent: Sequence[Sent]) -> list[str]:
    return [value.get("type", "") for value in _values(sent)]


def _of(sent: Sequence[Sent], *types: str) -> list[dict[str, Any]]:
    return [value for value in _values(sent) if value.get("type") in types]


def _numbers_wrong(sent: Sequence[Sent], _: Mapping[str, Any]) -> bool:
    numbers = [value.get("sequence_number") for value in _values(sent)]
    return None in numbers or any(
        after <= before for before, after in itertools.pairwise(numbers) if before is not None
    )


def _deltas_before(opening: str, endings: tuple[str, ...], keys: tuple[str, ...]) -> Row:
    """Something is said of what was not opened."""

    def is_left_out(sent: Sequence[Sent], _: Mapping[str, Any]) -> bool:
        opened: set[tuple[Any, ...]] = set()
        for value in _values(sent):
            type = value.get("type", "")
            key = tuple(value.get(one) for one in keys)
            if type == opening:
                opened.add(key)
            elif type.endswith(endings) and key not in opened:
                return True
        return False

    return is_left_out


def _unfinished(opening: str, ending: str) -> Row:
    def is_left_out(sent: Sequence[Sent], _: Mapping[str, Any]) -> bool:
        if _has_failed(sent):
            return False
        return len(_of(sent, opening)) != len(_of(sent, ending))

    return is_left_out


def _arguments_undone(sent: Sequence[Sent], _: Mapping[str, Any]) -> bool:
    started = {value["item_id"] for value in _of(sent, "response.function_call_arguments.delta")}
    ended = {value["item_id"] for value in _of(sent, "response.function_call_arguments.done")}
    return not _has_failed(sent) and not started <= ended


def _response_ids(sent: Sequence[Sent]) -> set[Any]:
    return {value["response"].get("id") for value in _values(sent) if "response" in value}


def _item_ids_differ(sent: Sequence[Sent], _: Mapping[str, Any]) -> bool:
    ids: dict[Any, set[Any]] = {}
    for value in _of(sent, "response.output_item.added", "response.output_item.done"):
        ids.setdefault(value["output_index"], set()).add(value["item"].get("id"))
    for value in _of(sent, "response.completed"):
        for index, item in enumerate(value["response"]["output"]):
            ids.setdefault(index, set()).add(item.get("id"))
    return any(len(found) != 1 or None in found for found in ids.values())


_ENDINGS: Final = ("response.completed", "response.incomplete", "response.failed", "error")
_ITEM_DELTAS: Final = ("text.delta", "arguments.delta", "content_part.added")

RESPONSES: Final[Mapping[str, Row]] = {
    "every event is named": lambda sent, _: any(one.name != one.value.get("type") for one in sent if not one.is_done),
    "every event has a sequence number, and they ascend": _numbers_wrong,
    "response.created comes first": lambda sent, _: _types(sent)[:1] != ["response.created"],
    "an item is added before anything is said of it": _deltas_before(
        "response.output_item.added", _ITEM_DELTAS, ("output_index",)
    ),
    "a part is added before its text": _deltas_before(
        "response.content_part.added", ("output_text.delta",), ("output_index", "content_index")
    ),
    "arguments are said to be done": _arguments_undone,
    "every item is said to be done": _unfinished("response.output_item.added", "response.output_item.done"),
    "the response is said to be over, last": lambda sent, _: not _types(sent) or _types(sent)[-1] not in _ENDINGS,
    "the response keeps its id": lambda sent, _: len(_response_ids(sent)) != 1 or None in _response_ids(sent),
    "an item keeps its id": _item_ids_differ,
}

# Anthropic's Messages


def _blocks_disordered(sent: Sequence[Sent], _: Mapping[str, Any]) -> bool:
    starts = [value.get("index") for value in _of(sent, "content_block_start")]
    return starts != list(range(len(starts)))


def _block_left_open(sent: Sequence[Sent], _: Mapping[str, Any]) -> bool:
    """One block at a time: what is said between its start and its stop is said of it."""
    now: Any = None
    for value in _values(sent):
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
    return now is not None and not _has_failed(sent)


def _input_told_early(sent: Sequence[Sent], _: Mapping[str, Any]) -> bool:
    blocks = [value["content_block"] for value in _of(sent, "content_block_start")]
    return any(block.get("input") != {} for block in blocks if block["type"] == "tool_use")


def _usage_untold(sent: Sequence[Sent], _: Mapping[str, Any]) -> bool:
    told = [value.get("usage", {}).get("output_tokens") for value in _of(sent, "message_delta")]
    return not _has_failed(sent) and (not told or None in told)


def _message_unended(sent: Sequence[Sent], _: Mapping[str, Any]) -> bool:
    return not _has_failed(sent) and _types(sent)[-1:] != ["message_stop"]


def _begins_otherwise(sent: Sequence[Sent], _: Mapping[str, Any]) -> bool:
    # A ping may come at any time, and does where the first token takes long.
    return [type for type in _types(sent) if type != "ping"][:1] != ["message_start"]


MESSAGES: Final[Mapping[str, Row]] = {
    "every event is named": lambda sent, _: any(one.is_done or one.name != one.value.get("type") for one in sent),
    "message_start comes first": _begins_otherwise,
    "blocks begin in the order of their indices": _blocks_disordered,
    "a block is open while anything is said of it, and one at a time": _block_left_open,
    "a call's input begins empty": _input_told_early,
    "the tokens written are told at the end": _usage_untold,
    "message_stop comes last": _message_unended,
}

TABLES: Final[Mapping[str, Mapping[str, Row]]] = {"chat": CHAT, "responses": RESPONSES, "messages": MESSAGES}
