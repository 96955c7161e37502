"""Limit: how far a target enforces a keyword while decoding, with texts that prove it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Coverage(StrEnum):
    """How far a keyword is enforced while decoding. Whatever is not enforced is checked afterwards.

    ENFORCED: invalid values cannot be written. APPROXIMATED: some invalid values can be written. UNENFORCED: all can.
    """

    ENFORCED = "enforced"
    APPROXIMATED = "approximated"
    UNENFORCED = "not enforced"


@dataclass(frozen=True, slots=True)
class Limit:
    """How far a target enforces one keyword.

    `keyword` is a keyword of JSON Schema, one format (`format:date`), or one case of a keyword
    (`oneOf, overlapping`). The texts are normalized JSON. `accepts` are valid and can be written; `rejects` are invalid
    and cannot be written; `false_accepts` are invalid but can be written; `false_rejects` are valid but cannot be
    written in that form.
    """

    keyword: str
    coverage: Coverage
    detail: str
    example_schema: Mapping[str, Any]
    accepts: tuple[str, ...]
    rejects: tuple[str, ...] = ()
    false_accepts: tuple[str, ...] = ()
    false_rejects: tuple[str, ...] = ()


def enforced(
    keyword: str,
    detail: str,
    schema: Mapping[str, Any],
    accepts: tuple[str, ...],
    rejects: tuple[str, ...],
    false_rejects: tuple[str, ...] = (),
) -> Limit:
    """A row for a keyword that is enforced."""
    return Limit(keyword, Coverage.ENFORCED, detail, schema, accepts, rejects=rejects, false_rejects=false_rejects)


def approximated(
    keyword: str, detail: str, schema: Mapping[str, Any], accepts: tuple[str, ...], false_accepts: tuple[str, ...]
) -> Limit:
    """A row for a keyword that is approximated."""
    return Limit(keyword, Coverage.APPROXIMATED, detail, schema, accepts, false_accepts=false_accepts)


def unenforced(
    keyword: str, detail: str, schema: Mapping[str, Any], accepts: tuple[str, ...], false_accepts: tuple[str, ...]
) -> Limit:
    """A row for a keyword that is not enforced."""
    return Limit(keyword, Coverage.UNENFORCED, detail, schema, accepts, false_accepts=false_accepts)
