import datetime
import decimal
import enum
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, field_validator

from ferrule.errors import SchemaError
from ferrule.schema.checker import Checker
from ferrule.schema.inference import infer
from ferrule.schema.python_arguments import arguments_to_python
from schema.annotated_types import Box, Card, Color, Context, Level, Node, Owner, Stop, Tree, book, everything


def function_of(annotation: Any) -> Callable[..., object]:
    def function(value: Any) -> None: ...

    function.__annotations__["value"] = annotation
    return function


def convert(annotation: Any, value: object) -> Any:
    function = function_of(annotation)
    assert Checker(infer(function).parameters).faults({"value": value}) == ()
    return arguments_to_python(function, {"value": value})["value"]


@given(st.dates())
def test_a_date_comes_back(day: datetime.date) -> None:
    assert convert(datetime.date, day.isoformat()) == day


@given(st.datetimes(min_value=datetime.datetime(1000, 1, 1), timezones=st.just(datetime.UTC)))
def test_a_moment_comes_back(when: datetime.datetime) -> None:
    assert convert(datetime.datetime, when.isoformat()) == when


@given(st.uuids())
def test_an_identifier_comes_back(ident: uuid.UUID) -> None:
    assert convert(uuid.UUID, str(ident)) == ident


@given(
    st.recursive(
        st.builds(Tree, st.integers()), lambda kids: st.builds(Tree, st.integers(), st.lists(kids, max_size=3))
    )
)
def test_a_tree_comes_back(tree: Tree) -> None:
    def to_json(node: Tree) -> dict[str, object]:
        return {"value": node.value, "kids": [to_json(kid) for kid in node.kids]}

    assert convert(Tree, to_json(tree)) == tree


@given(st.lists(st.sampled_from(Color), unique=True))
def test_collections_of_members_come_back(colors: list[Color]) -> None:
    values = [color.value for color in colors]
    assert convert(list[Color], values) == colors
    assert convert(set[Color], values) == set(colors)
    assert convert(frozenset[Color], values) == frozenset(colors)
    assert convert(tuple[Color, ...], values) == tuple(colors)


@pytest.mark.parametrize(
    "annotation, value, expected",
    [
        (str, "1", "1"),
        (int, 2.0, 2),
        (float, 2, 2.0),
        (bool, True, True),
        (None, None, None),
        (Any, {"a": [1]}, {"a": [1]}),
        (decimal.Decimal, 0.1, decimal.Decimal("0.1")),
        (datetime.time, "13:45:00Z", datetime.time(13, 45, tzinfo=datetime.UTC)),
        (Path, "a/b", Path("a/b")),
        (Level, 2, Level.HIGH),
        (Literal["a", 1, True], True, True),
        (Literal[Color.RED, "x"], "red", Color.RED),
        (Stop, {"name": "A", "tags": ["t"]}, Stop("A", tags=["t"])),
        (Box, {"width": 1}, Box(1.0)),
        (Card, {"number": "1", "holder": {"name": "Al"}}, Card(number="1", holder=Owner(name="Al"))),
        (Node, {"next": {"next": None}}, Node(next=Node())),
        (tuple[int, Color], [1, "blue"], (1, Color.BLUE)),
        (dict[str, Color], {"a": "red"}, {"a": Color.RED}),
        (dict[Color, int], {"red": 1}, {Color.RED: 1}),
        (list, [1, "a"], [1, "a"]),
        (dict, {"a": 1}, {"a": 1}),
        (Stop | Color | int, {"name": "A"}, Stop("A")),
        (Stop | Color | int, "red", Color.RED),
        (Stop | Color | int, 7, 7),
        (int | None, None, None),
        (str | datetime.date, "2026-01-31", "2026-01-31"),
    ],
)
def test_json_becomes_the_annotated_type(annotation: Any, value: object, expected: object) -> None:
    result = convert(annotation, value)
    assert result == expected
    assert type(result) is type(expected)


def test_one_and_true_are_different_members() -> None:
    class Mixed(enum.Enum):
        ONE = 1
        YES = True

    assert arguments_to_python(function_of(Literal[1, True]), {"value": True})["value"] is True
    assert arguments_to_python(function_of(Literal[True, 1]), {"value": 1})["value"] is not True
    assert arguments_to_python(function_of(Mixed), {"value": 1})["value"] is Mixed.ONE


def test_arguments_that_are_left_out_stay_out() -> None:
    assert arguments_to_python(book, {"city": "Rome", "days": 2}) == {"city": "Rome", "days": 2}
    assert arguments_to_python(book, {"city": "Rome", "days": 2, "color": "blue"})["color"] is Color.BLUE


def test_a_typed_dict_stays_a_dict() -> None:
    assert arguments_to_python(everything, {"person": {"name": "Al"}}) == {"person": {"name": "Al"}}


def test_an_injected_parameter_cannot_be_passed_as_an_argument() -> None:
    def act(item: str, context: Context) -> None: ...

    with pytest.raises(SchemaError, match="context"):
        arguments_to_python(act, {"item": "a", "context": {}}, injected=frozenset({Context}))


class Even(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def is_even(cls, number: int) -> int:
        if number % 2:
            raise ValueError("must be even")
        return number


@pytest.mark.parametrize(
    "annotation, value, path",
    [
        (int, "1", "/value"),
        (int, True, "/value"),
        (int, 2.5, "/value"),
        (str, None, "/value"),
        (Color, "green", "/value"),
        (datetime.date, "soon", "/value"),
        (list[Stop], [{"name": "A"}, {"name": 1}], "/value/1/name"),
        (Stop, {"name": "A", "other": 1}, "/value"),
        (Stop, {}, "/value"),
        (Stop, [], "/value"),
        (dict[str, int], {"a/b": "x"}, "/value/a~1b"),
        (dict[str, int], [], "/value"),
        (tuple[int, int], [1], "/value"),
        (Stop | Color, {"name": 1}, "/value/name"),
        (Even, {"number": 3}, "/value"),
    ],
)
def test_what_does_not_convert_is_an_error_that_names_the_place(annotation: Any, value: object, path: str) -> None:
    with pytest.raises(SchemaError) as refused:
        arguments_to_python(function_of(annotation), {"value": value})
    assert (refused.value.code, refused.value.path) == ("argument_mismatch", path)
