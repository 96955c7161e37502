"""Check a value against a schema, and explain why it does not fit. The only module that imports jsonschema-rs.

The schema must be admitted first. Nothing is ever fetched: the validator's own retriever would read http and file URLs,
so it is replaced by one that refuses.
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
from ferrule.schema.fault_location import FaultLocation, locate_fault
from ferrule.schema.fault_messages import KeywordFailure, fault_of, preview
from ferrule.schema.pointer import pointer_to
from ferrule.schema.refs import local_target

MAX_FAULTS = 32
_CACHED = 256


class Checker:
    """A compiled schema. `faults` is empty if and only if the value fits."""

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
                hint="Write the schema as JSON Schema 2020-12 defines it.",
            ) from None

    def fits(self, value: object) -> bool:
        """Whether a value fits: a fast version of `faults`, for a value that is known to be JSON and not deep.

        The value must not contain infinity or half of a surrogate pair. False may also mean that the answer is unknown;
        `faults` then decides.
        """
        try:
            return self._validator.is_valid(value)
        except ValueError:
            # The value is nested more deeply than the validator supports.
            return False

    def faults(self, value: object) -> tuple[Fault, ...]:
        """What is wrong with a value, at most `MAX_FAULTS` faults; empty if it fits."""
        try:
            # The validator reads infinity as null, so values that are not JSON must be refused before it.
            dumps(value).encode()
            if self._validator.is_valid(value):
                return ()
            if is_explainable(self._schema, value, self._schema):
                return self._explain(self._validator, FaultLocation("", "", value))
            return self._explain_part(value)
        except RecursionError:
            return (Fault("", "json", "is nested too deeply"),)
        except (TypeError, ValueError) as error:
            return (Fault("", "json", f"is not JSON: {error!s:.120}"),)

    def faults_of_text(self, json_text: str) -> tuple[Fault, ...]:
        """The same as `faults` for a JSON text, which must be strict JSON."""
        try:
            value = loads(json_text)
        except RecursionError:
            return (Fault("", "json", "is nested too deeply"),)
        except ValueError as error:
            return (Fault("", "json", f"is not JSON: {error!s:.120}"),)
        is_wrong = self._is_object and not _is_object(value)
        return (_not_an_object(value),) if is_wrong else self.faults(value)

    def _explain(self, validator: jsonschema_rs.Validator, location: FaultLocation) -> tuple[Fault, ...]:
        errors = islice(validator.iter_errors(location.value), MAX_FAULTS)
        return tuple(fault_of(self._failure(error, location)) for error in errors)

    def _explain_part(self, value: object) -> tuple[Fault, ...]:
        """The faults of one part that does not fit, if listing those of the whole value would take too long."""
        validators = jsonschema_rs.validator_map_for(cast("dict[str, object]", self._schema), **_options())

        def fits(location: FaultLocation) -> bool:
            validator = validators.get("#" + location.schema_path)
            return validator is None or validator.is_valid(location.value)

        location = locate_fault(self._schema, value, fits)
        schema = local_target("#" + location.schema_path, self._schema)
        validator = validators.get("#" + location.schema_path)
        if validator is not None and schema is not None and is_explainable(schema, location.value, self._schema):
            return self._explain(validator, location)
        message = f"does not fit the schema, for more reasons than can be listed; got {preview(location.value)}"
        return (Fault(location.path, "schema", message),)

    def _failure(self, error: jsonschema_rs.ValidationError, location: FaultLocation) -> KeywordFailure:
        kind = error.kind
        branches = getattr(kind, "context", ())
        return KeywordFailure(
            path=location.path + pointer_to(error.instance_path),
            keyword=kind.name,
            value=error.instance,
            expected=kind.value,
            message=error.message,
            known_properties=tuple(self._properties_beside(error, location)),
            branches=tuple(tuple(self._failure(inner, location) for inner in branch) for branch in branches),
        )

    def _properties_beside(self, error: jsonschema_rs.ValidationError, location: FaultLocation) -> Iterator[str]:
        """The property names that are listed beside an `additionalProperties` that failed."""
        if error.kind.name not in ("additionalProperties", "unevaluatedProperties"):
            return
        # After a reference, the path starts at the root again. Otherwise it starts where the validator was compiled.
        start = "" if "$ref" in error.evaluation_path else location.schema_path
        parent = local_target("#" + start + pointer_to(error.schema_path[:-1]), self._schema)
        if isinstance(parent, dict):
            yield from cast("dict[str, object]", parent.get("properties", {}))


def checker_for(schema: dict[str, object] | bool) -> Checker:
    """The checker of a schema. Compiled checkers are cached."""
    return _compile(canonical(schema))


@lru_cache(maxsize=_CACHED)
def _compile(canonical_text: str) -> Checker:
    return Checker(json.loads(canonical_text))


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _not_an_object(value: object) -> Fault:
    return Fault("", "json", f"must be a JSON object, got {preview(value)}")


class _Options(TypedDict):
    validate_formats: bool
    retriever: Callable[[str], jsonschema_rs.JSONType]
    pattern_options: jsonschema_rs.RegexOptions


def _options() -> _Options:
    # Only linear-time patterns, standard formats are checked, and nothing is fetched.
    return {
        "validate_formats": True,
        "retriever": _refuse,
        "pattern_options": jsonschema_rs.RegexOptions(),
    }


def _refuse(uri: str) -> jsonschema_rs.JSONType:
    raise ValueError(f"{uri:.80} is outside the schema, and schemas are never fetched")
