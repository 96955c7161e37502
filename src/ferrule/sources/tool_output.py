"""Tool output: converts what a tool returns to JSON or text, and truncates it to what a model should read.

Images, recordings and files are taken out of the value (`with_media`), because JSON has no type for them.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import logging
import pathlib
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar, cast

from ferrule.core.history import without_surrogates
from ferrule.core.json_text import MAX_DIGITS, dumps
from ferrule.core.media import Media, media_line, size_text
from ferrule.core.outcome import Answered

MAX_BYTES = 64 * 1024
MAX_MEDIA = 20
"""How many images, recordings and files one result may have."""
MAX_MEDIA_BYTES = 20_000_000
"""How many bytes the images, recordings and files of one result may have together."""
_MAX_DEPTH = 64
_MAX_VALUES = 100_000
"""More than fits into the longest output."""
# The smallest integer that Python does not print: to print more digits takes time that grows with the square.
_LARGEST = 10**MAX_DIGITS
_T = TypeVar("_T")
_log = logging.getLogger(__name__)
_STRING_TYPES = (datetime.date, datetime.time, uuid.UUID, pathlib.PurePath, decimal.Decimal)


def to_json_value(value: Any) -> Any:
    """Convert any value to a JSON value. A value that JSON cannot represent becomes its text.

    Half of a surrogate pair becomes U+FFFD, because no tokenizer can encode it. `Media` stays what it is; `with_media`
    takes it out. The work is bounded, also for a value that contains itself: what nests too deeply, or comes after too
    many values, is replaced by a note.
    """
    return _Conversion().convert(value, 0)


class _Conversion:
    """Converts one value, and counts its parts."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def convert(self, value: Any, depth: int) -> Any:
        self._count += 1
        if depth > _MAX_DEPTH:
            return "(nested too deeply)"
        if self._count > _MAX_VALUES:
            return f"(more than {_MAX_VALUES} values)"
        match value:
            case str():
                return without_surrogates(value)
            case None | bool():
                return value
            case int():
                return value if -_LARGEST < value < _LARGEST else f"(an integer of more than {MAX_DIGITS} digits)"
            case float():
                return value if value - value == 0 else str(value)
            case enum.Enum():
                return self.convert(value.value, depth + 1)
            case bytes():
                return value.decode("utf-8", "replace")
            case Mapping():
                pairs = cast("Mapping[Any, Any]", value).items()
                return {_text_of(key): self.convert(item, depth + 1) for key, item in self._first(pairs)}
            case list() | tuple() | set() | frozenset():
                return [self.convert(item, depth + 1) for item in self._first(cast("Iterable[Any]", value))]
            case Media():
                return value
            case _ if isinstance(value, _STRING_TYPES):
                return _text_of(value)
            case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
                return {f.name: self.convert(getattr(value, f.name), depth + 1) for f in dataclasses.fields(value)}
            case _:
                dump = getattr(value, "model_dump", None)
                return self.convert(dump(mode="json"), depth + 1) if callable(dump) else _text_of(value)

    def _first(self, items: Iterable[_T]) -> Iterator[_T]:
        """The items, up to the first that is one too many: a note stands for the others."""
        for item in items:
            yield item
            if self._count > _MAX_VALUES:
                return


def _text_of(value: object) -> str:
    """Return the text of any object, also of one that has none."""
    if isinstance(value, int):
        return str(to_json_value(value))
    try:
        return without_surrogates(str(value))
    # The object's own code runs here, and it may raise anything.
    except Exception as error:
        _log.warning("an object of the type %s in a tool's result has no text", type(value).__name__, exc_info=error)
        return f"({type(value).__name__})"


def truncate(content: Any, max_bytes: int = MAX_BYTES) -> Any:
    """Return the content, or its beginning and how much of it that is.

    The rest is gone: a model that needs it must ask the tool for less at a time.
    """
    text = content if isinstance(content, str) else dumps(content)
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= max_bytes:
        return content
    beginning = data[:max_bytes].decode("utf-8", "ignore")
    return f"{beginning}\n[truncated: {len(beginning)} of {len(text)} characters]"


def with_media(answer: Answered) -> Answered:
    """Return the answer with its images, recordings and files in `media`, and the rest as its content.

    A list of texts and media becomes the texts, joined. Deeper in the value, a line that names the part stands in its
    place. All of the content is read, so it must come from `to_json_value`, which bounds it.

    Example:
        answer = with_media(Answered(["the page", Media("image", "image/png", data=screenshot)]))
        assert answer.content == "the page" and len(answer.media) == 1
    """
    found: list[Media] = []
    content: Any = answer.content
    if isinstance(content, Media):
        found, content = [content], ""
    elif isinstance(content, list | tuple):
        items = cast("list[Any] | tuple[Any, ...]", content)
        rest = [_without_media(item, found, 1) for item in items if not isinstance(item, Media)]
        # In the order of the list, whatever is deeper in it.
        found = [*(item for item in items if isinstance(item, Media)), *found]
        if found:
            content = "\n".join(map(str, rest)) if all(isinstance(item, str) for item in rest) else rest
    else:
        content = _without_media(content, found, 0)
    return dataclasses.replace(answer, content=content, media=(*found, *answer.media)) if found else answer


def _without_media(value: Any, found: list[Media], depth: int) -> Any:
    if isinstance(value, Media):
        found.append(value)
        return media_line(value)
    if depth > _MAX_DEPTH:
        return value
    if isinstance(value, dict):
        members = cast("dict[Any, Any]", value)
        changed = {key: _without_media(item, found, depth + 1) for key, item in members.items()}
        return changed if found else members
    if isinstance(value, list | tuple):
        items = cast("list[Any] | tuple[Any, ...]", value)
        changed_items = [_without_media(item, found, depth + 1) for item in items]
        return changed_items if found else items
    return value


def limit_media(answer: Answered) -> Answered:
    """Return the answer with no more media than one result may have; a line names each part that is left out."""
    kept: list[Media] = []
    left_out: list[str] = []
    total = 0
    for media in answer.media:
        if len(kept) < MAX_MEDIA and total + media.size <= MAX_MEDIA_BYTES:
            total += media.size
            kept.append(media)
        elif len(left_out) < MAX_MEDIA:
            left_out.append(
                f"{media_line(media)} was left out: a result may have {MAX_MEDIA} of {size_text(MAX_MEDIA_BYTES)}"
            )
    if not left_out:
        return answer
    text = answer.content if isinstance(answer.content, str) else dumps(to_json_value(answer.content))
    content = "\n".join(filter(None, (text, *left_out)))
    return dataclasses.replace(answer, content=content, media=tuple(kept))
