"""Types that an answer must fit: their schemas, and the values of answers."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, TypedDict

import pytest
from pydantic import BaseModel, Field

from ferrule import InvalidResponseError, Reply, SchemaError, ToolCall
from ferrule.core.event import FinishReason
from ferrule.schema.admission import admit
from ferrule.schema.response_type import ResponseType


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: int = 0


class Movie(TypedDict):
    title: str
    year: int


class Person(BaseModel):
    name: str
    age: int = Field(ge=0)
    friends: list[Person] = []


@dataclass
class Tree:
    name: str
    children: list[Tree] = field(default_factory=list["Tree"])


@pytest.mark.parametrize(
    "annotation, text, value",
    [
        (Point, '{"x": 1}', Point(1)),
        (Movie, '{"title": "M", "year": 1931}', {"title": "M", "year": 1931}),
        (Person, '{"name": "Ada", "age": 36}', Person(name="Ada", age=36)),
        (Person, '{"name": "A", "age": 1, "friends": [{"name": "B", "age": 2}]}', None),
        (Tree, '{"name": "a", "children": [{"name": "b"}]}', Tree("a", [Tree("b")])),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (list[Point], '{"value": [{"x": 1, "y": 2}]}', [Point(1, 2)]),
        (int, '{"value": 3}', 3),
        (bool, '{"value": true}', True),
        (str | None, '{"value": null}', None),
        (Literal["a", "b"], '{"value": "b"}', "b"),
        (Colour, '{"value": "red"}', Colour.RED),
        (datetime.date, '{"value": "2026-11-16"}', datetime.date(2026, 11, 16)),
    ],
)
def test_an_answer_becomes_an_object_of_the_type(annotation: Any, text: str, value: Any) -> None:
    kind = ResponseType.of(annotation)
    assert kind.schema["type"] == "object"
    admit(kind.schema)
    result = kind.value_of(Reply.of(text))
    if value is not None:
        assert result == value


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("It is one.", "not JSON"),
        ('{"x": "one"}', "x"),
        ("{}", "x"),
        ('{"x": 1, "z": 2}', "z"),
        ("[1, 2]", "object"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(InvalidResponseError, match=complaint):
        ResponseType.of(Point).value_of(Reply.of(text))


def test_what_only_the_class_can_check_is_refused_too() -> None:
    with pytest.raises(InvalidResponseError):
        ResponseType.of(datetime.date).value_of(Reply.of('{"value": "soon"}'))


def test_a_cut_off_answer_and_a_call_say_so() -> None:
    kind = ResponseType.of(Point)
    with pytest.raises(InvalidResponseError, match="cut off") as refusal:
        kind.value_of(Reply(Reply.of('{"x": 1').parts, finish=FinishReason.LENGTH))
    assert "max_tokens" in refusal.value.hint
    with pytest.raises(InvalidResponseError, match="called tools"):
        kind.value_of(Reply.of(ToolCall.of("ping", id="c1")))


def test_a_type_without_a_schema_is_refused() -> None:
    with pytest.raises(SchemaError, match="bytes"):
        ResponseType.of(bytes)
