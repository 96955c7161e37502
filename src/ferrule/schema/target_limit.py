"""Limit: one fact about what a target does with a keyword while decoding, with texts that prove it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Say(StrEnum):
    """ENFORCED: what does not fit cannot be written. APPROXIMATED: some of it can. NOT_SAYABLE: all of it can.

    Whatever is not enforced is checked after decoding.
    """

    ENFORCED = "enforced"
    APPROXIMATED = "approximated"
    NOT_SAYABLE = "not sayable"


@dataclass(frozen=True, slots=True)
class Limit:
    """`keyword` is a keyword of JSON Schema; `format:date` for one format; `oneOf, overlapping` for one use of it.

    The texts are JSON in Ferrule's spelling. `accepts` fit and can be written; `rejects` do not fit and cannot be;
    `slips` do not fit but can be written; `narrows` fit but cannot be written that way.
    """

    keyword: str
    say: Say
    how: str
    example_schema: Mapping[str, Any]
    accepts: tuple[str, ...]
    rejects: tuple[str, ...] = ()
    slips: tuple[str, ...] = ()
    narrows: tuple[str, ...] = ()


def enforced(
    keyword: str,
    how: str,
    schema: Mapping[str, Any],
    accepts: tuple[str, ...],
    rejects: tuple[str, ...],
    narrows: tuple[str, ...] = (),
) -> Limit:
    return Limit(keyword, Say.ENFORCED, how, schema, accepts, rejects=rejects, narrows=narrows)


def nearly(
    keyword: str, how: str, schema: Mapping[str, Any], accepts: tuple[str, ...], slips: tuple[str, ...]
) -> Limit:
    return Limit(keyword, Say.APPROXIMATED, how, schema, accepts, slips=slips)


def unsaid(
    keyword: str, how: str, schema: Mapping[str, Any], accepts: tuple[str, ...], slips: tuple[str, ...]
) -> Limit:
    return Limit(keyword, Say.NOT_SAYABLE, how, schema, accepts, slips=slips)
