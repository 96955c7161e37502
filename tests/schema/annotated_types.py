"""Types and functions for the tests of inference. They are at module level, where annotations are resolved."""

from __future__ import annotations

import datetime
import enum
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, TypedDict

from pydantic import BaseModel, Field


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclass(frozen=True)
class Stop:
    """A station.

    Attributes:
        name: What it is called.
    """

    name: str
    minutes: int = 5
    tags: list[str] = field(default_factory=list)
    made: int = field(init=False, default=0)


@dataclass
class Tree:
    value: int
    kids: list[Tree] = field(default_factory=list)


class Box(NamedTuple):
    width: float
    unit: Literal["cm", "in"] = "cm"


class Person(TypedDict):
    name: str
    age: NotRequired[int]


class Card(BaseModel):
    number: str
    holder: Owner | None = None


class Owner(BaseModel):
    name: str = Field(min_length=2, description="who holds it")


class Node(BaseModel):
    next: Node | None = None


class Context:
    """A type that the caller injects."""


Name = NewType("Name", str)


def book(
    city: Annotated[str, "Where to go."],
    days: int,
    color: Color = Color.RED,
    note: str | None = None,
    *,
    fast: bool = False,
) -> str:
    """Book a trip.

    Args:
        city: Not shown, the annotation wins.
        days: How long.
    """
    return f"{city}{days}{color}{note}{fast}"


def everything(
    level: Level,
    stop: Stop,
    tree: Tree,
    box: Box,
    person: Person,
    card: Card,
    node: Node,
    when: datetime.datetime,
    day: datetime.date,
    ident: uuid.UUID,
    path: Path,
    pair: tuple[int, Color],
    many: tuple[Color, ...],
    unique: set[Color],
    by_name: dict[str, Stop],
    by_color: Mapping[Color, int],
    sequence: Sequence[Name],
    ratio: Annotated[float, Field(ge=0, le=1, description="a share")],
    either: Stop | Color | int,
    anything: Any,
    untyped,  # type: ignore[no-untyped-def]
) -> None:
    """Take one of each."""
