"""Miss: why a reply is not correct."""

from dataclasses import dataclass
from enum import Enum


class Reason(Enum):
    """The first thing that is wrong with a reply."""

    COUNT = "wrong count"
    FUNCTION = "wrong function"
    MISSING = "missing parameter"
    UNEXPECTED = "unexpected parameter"
    TYPE = "type"
    VALUE = "value"
    UNREADABLE = "unreadable arguments"
    CALLED = "a call"
    NOT_CALLED = "no call"
    REFUSED = "not answered"
    """The engine, or Ferrule before it, refused the request."""


@dataclass(frozen=True, slots=True)
class Miss:
    """The reason, and the function or parameter concerned."""

    reason: Reason
    where: str = ""
