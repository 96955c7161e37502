"""Checker: whether a value fits a schema, and if not, why. The only file that knows the validator, jsonschema-rs.

The schema must have been admitted. Nothing is ever fetched: the validator's own retriever would read http and file
addresses, so it is replaced by one that refuses.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice
from typing import TypedDict, cast

import jsonschema_rs

from ferrule.core.fault import Fault
from ferrule.core.json_text import canonical, dumps, loads
from ferrule.errors import SchemaError
from ferrule.schema.cost_limit import is_explainable
from ferrule.schema.fault_location import Place, failing_place
from ferrule.schema.fault_messages import Finding, fault_of, shown
from ferrule.schema.pointer import pointer_to
from ferrule.schema.refs import local_target

MAX_FAULTS = 32
_CACHED = 256


class Checker:
    """A compiled schema. `faults` is empty exactly when the value fits."""

    __slots__ = ("_is_object", "_schema", "_validator")

    def __init__(self, schema: dict[str, object] | bool) -> None:
        self._schema = schema
        self._is_object = isinstance(schema, dict) and schema.get("type") == "object"
        try:
            self._validator = jsonschema_rs.Draft202012Validator(schema, **_options())
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            raise SchemaError(
                f"the schema cannot be compiled: {str(error).splitlines()[0]:.200}",
                code="not_a_schema",
                path=pointer_to(error.instance_path) if isinstance(error, jsonschema_rs.ValidationError) else "",
                hint="Pass the schema through ferrule.schema.admission first; its refusal says what to change.",
            ) from None

    def fits(self, value: object) -> bool:
        """Whether `faults` is empty, for a value that is surely JSON and not deep: no infinity, no half of a character.

        False may also mean that this cannot tell; `faults` can.
        """
        try:
            return self._validator.is_valid(value)
        except ValueError:
            # It is nested more deeply than the validator goes.
            return False

    def faults(self, value: object) -> tuple[Fault, ...]:
        """What is wrong with a value, at most `MAX_FAULTS` things; empty where it fits."""
        try:
            # The validator reads infinity as null, so what is not JSON is stopped before it.
            dumps(value).encode()
            if self._validator.is_valid(value):
                return ()
            if is_explainable(self._schema, value, self._schema):
                return self._explained(self._validator, Place("", "", value))
            return self._explained_in_part(value)
        except RecursionError:
            return (Fault("", "json", "is nested too deeply"),)
        except (TypeError, ValueError) as error:
            return (Fault("", "json", f"is not JSON: {error!s:.120}"),)

    def faults_of_text(self, json_text: str) -> tuple[Fault, ...]:
        """The same for a JSON text, which must be JSON to the letter."""
        try:
            value = loads(json_text)
        except RecursionError:
            return (Fault("", "json", "is nested too deeply"),)
        except ValueError as error:
            return (Fault("", "json", f"is not JSON: {error!s:.120}"),)
        is_wrong = self._is_object and not _is_object(value)
        return (_not_an_object(value),) if is_wrong else self.faults(value)

    def _explained(self, validator: jsonschema_rs.Validator, place: Place) -> tuple[Fault, ...]:
        found = islice(validator.iter_errors(place.part), MAX_FAULTS)
        return tuple(fault_of(self._finding(error, place)) for error in found)

    def _explained_in_part(self, value: object) -> tuple[Fault, ...]:
        """The faults of one part that does not fit, because those of the whole would take too long to list."""
        by_place = jsonschema_rs.validator_map_for(cast("dict[str, object]", self._schema), **_options())

        def fits(place: Place) -> bool:
            validator = by_place.get("#" + place.schema_at)
            return validator is None or validator.is_valid(place.part)

        place = failing_place(self._schema, value, fits)
        schema = local_target("#" + place.schema_at, self._schema)
        validator = by_place.get("#" + place.schema_at)
        if validator is not None and schema is not None and is_explainable(schema, place.part, self._schema):
            return self._explained(validator, place)
        words = f"does not fit, in more ways than can be listed; got {shown(place.part)}"
        return (Fault(place.path, "schema", words),)

    def _finding(self, error: jsonschema_rs.ValidationError, place: Place) -> Finding:
        kind = error.kind
        branches = getattr(kind, "context", ())
        return Finding(
            path=place.path + pointer_to(error.instance_path),
            keyword=kind.name,
            value=error.instance,
            asked=kind.value,
            message=error.message,
            known=tuple(self._known_properties(error, place)),
            branches=tuple(tuple(self._finding(inner, place) for inner in branch) for branch in branches),
        )

    def _known_properties(self, error: jsonschema_rs.ValidationError, place: Place) -> Iterator[str]:
        """The names beside an `additionalProperties` that failed."""
        if error.kind.name not in ("additionalProperties", "unevaluatedProperties"):
            return
        # A reference starts the path again at the root; without one it starts where the validator was compiled.
        start = "" if "$ref" in error.evaluation_path else place.schema_at
        beside = local_target("#" + start + pointer_to(error.schema_path[:-1]), self._schema)
        if isinstance(beside, dict):
            yield from cast("dict[str, object]", beside.get("properties", {}))


def checker_for(schema: dict[str, object] | bool) -> Checker:
    """The checker of a schema, compiled once while it stays among the last used."""
    return _compiled(canonical(schema))


@lru_cache(maxsize=_CACHED)
def _compiled(canonical_text: str) -> Checker:
    return Checker(json.loads(canonical_text))


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _not_an_object(value: object) -> Fault:
    return Fault("", "json", f"must be a JSON object, got {shown(value)}")


class _Options(TypedDict):
    validate_formats: bool
    retriever: Callable[[str], jsonschema_rs.JSONType]
    pattern_options: jsonschema_rs.RegexOptions


def _options() -> _Options:
    # Linear-time patterns only, standard formats enforced, and nothing fetched.
    return {
        "validate_formats": True,
        "retriever": _refuse,
        "pattern_options": jsonschema_rs.RegexOptions(),
    }


def _refuse(uri: str) -> jsonschema_rs.JSONType:
    raise ValueError(f"{uri:.80} is outside the schema, and nothing is fetched")
