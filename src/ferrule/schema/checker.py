"""Check a value against a schema, and explain why it does not fit. The only module that imports jsonschema-rs.

The schema must be admitted first. Nothing is ever fetched: the validator's own retriever would read http and file URLs,
so it is replaced by one that refuses.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias, TypedDict, cast

import jsonschema_rs

from ferrule.core.byte_cache import byte_cached, text_bytes
from ferrule.core.fault import Fault
from ferrule.core.json_text import canonical, dumps, loads_exact
from ferrule.errors import SchemaError
from ferrule.schema.fault_messages import KeywordFailure, fault_of, preview
from ferrule.schema.keywords import Child, Subschema, children
from ferrule.schema.pointer import escape, from_fragment, pointer_to
from ferrule.schema.refs import local_target

# Find one part of a value that does not fit, if listing all faults would take too long.
#
# The search follows references and parts. Among alternatives it follows the one whose constants match the value:
# {"op": "and", ...} matches the alternative in which `op` is "and". Each step only asks whether a part fits. This
# module does not depend on the validator.

_MAX_STEPS = 2_000


@dataclass(frozen=True, slots=True)
class FaultLocation:
    """A part of the value with its path, and the pointer to the schema that it should fit."""

    schema_path: str
    path: str
    value: object


Fits: TypeAlias = Callable[[FaultLocation], bool]


def locate_fault(root: Subschema, value: object, fits: Fits) -> FaultLocation:
    """The deepest part on the way down that does not fit, given that the whole value does not."""
    location = FaultLocation("", "", value)
    for _ in range(_MAX_STEPS):
        schema = local_target("#" + location.schema_path, root)
        inner = (
            next((candidate for candidate in _required_locations(schema, location) if not fits(candidate)), None)
            if isinstance(schema, dict)
            else None
        )
        if inner is None and isinstance(schema, dict):
            inner = _intended_alternative(schema, location, fits)
        if inner is None:
            return location
        location = inner
    return location


def _required_locations(schema: dict[str, object], location: FaultLocation) -> Iterator[FaultLocation]:
    """Every location that must fit if this one is to fit."""
    schema_path, path, part = location.schema_path, location.path, location.value
    if "$ref" in schema:
        yield FaultLocation(from_fragment(str(schema["$ref"])[1:]), path, part)
    for index in range(_count(schema, "allOf")):
        yield FaultLocation(f"{schema_path}/allOf/{index}", path, part)
    if isinstance(part, dict):
        properties = cast("dict[str, object]", schema.get("properties", {}))
        for name, inner in cast("dict[str, object]", part).items():
            if name in properties:
                yield FaultLocation(f"{schema_path}/properties/{escape(name)}", f"{path}/{escape(name)}", inner)
    if isinstance(part, list):
        prefix = _count(schema, "prefixItems")
        for index, inner in enumerate(cast("list[object]", part)):
            keyword = f"prefixItems/{index}" if index < prefix else "items"
            if index < prefix or "items" in schema:
                yield FaultLocation(f"{schema_path}/{keyword}", f"{path}/{index}", inner)


def _intended_alternative(schema: dict[str, object], location: FaultLocation, fits: Fits) -> FaultLocation | None:
    """The only alternative whose constants match the value; None if there are none or several, or if one fits."""
    for keyword in ("oneOf", "anyOf"):
        locations = [
            FaultLocation(f"{location.schema_path}/{keyword}/{index}", location.path, location.value)
            for index in range(_count(schema, keyword))
        ]
        if not locations or any(fits(candidate) for candidate in locations):
            continue
        branches = cast("list[Subschema]", schema[keyword])
        matching = [
            candidate
            for candidate, branch in zip(locations, branches, strict=True)
            if _has_constants(branch, location.value)
        ]
        if len(matching) == 1:
            return matching[0]
    return None


def _has_constants(branch: Subschema, part: object) -> bool:
    properties = cast("dict[str, object]", branch.get("properties", {})) if isinstance(branch, dict) else {}
    constants = {
        name: cast("dict[str, object]", inner)["const"]
        for name, inner in properties.items()
        if isinstance(inner, dict) and "const" in inner
    }
    if not constants or not isinstance(part, dict):
        return False
    members = cast("dict[str, object]", part)
    return all(name in members and members[name] == constant for name, constant in constants.items())


def _count(schema: dict[str, object], keyword: str) -> int:
    return len(cast("list[object]", schema.get(keyword, [])))


_BASE = 5_000
_PER_PART = 8

_Step: TypeAlias = tuple[Subschema, object]


def is_explainable(schema: Subschema, value: object, root: Subschema) -> bool:
    """Whether the number of pairs (part of the value, schema that applies to it) stays within a linear budget."""
    budget = _BASE + _PER_PART * _parts(value)
    pending: list[_Step] = [(schema, value)]
    while pending:
        inner, part = pending.pop()
        for step in _steps(inner, part, root) if isinstance(inner, dict) else ():
            pending.append(step)
            budget -= 1
            if budget < 0:
                return False
    return True


def _parts(value: object) -> int:
    count = 0
    pending = [value]
    while pending:
        part = pending.pop()
        count += 1
        pending.extend(_children(part))
    return count


def _children(part: object) -> list[object]:
    if isinstance(part, list):
        return cast("list[object]", part)
    return [inner for _, inner in _members(part)]


def _members(part: object) -> list[tuple[str, object]]:
    return list(cast("dict[str, object]", part).items()) if isinstance(part, dict) else []


def _steps(schema: dict[str, object], part: object, root: Subschema) -> Iterator[_Step]:
    """Each subschema with a part that it applies to. Too many pairs do no harm: they only shorten an explanation."""
    if "$ref" in schema:
        target = local_target(schema["$ref"], root)
        if target is not None:
            yield target, part
    # Iterate over the value's names: a schema may list hundreds that the value does not have.
    properties = cast("dict[str, Subschema]", schema.get("properties", {}))
    yield from ((properties[name], inner) for name, inner in _members(part) if name in properties)
    others = {keyword: value for keyword, value in schema.items() if keyword != "properties"}
    for child in children(others):
        yield from ((child.schema, inner) for inner in _applicable_parts(child, part))


def _applicable_parts(child: Child, part: object) -> list[object]:
    keyword, key = child.tokens[0], child.tokens[-1]
    if child.applies_to != "part":
        return [part] if child.applies_to == "value" else []
    if keyword == "prefixItems":
        return _children(part)[cast(int, key) : cast(int, key) + 1]
    takes_items = keyword in ("items", "contains", "unevaluatedItems")
    return _children(part) if takes_items is isinstance(part, list) else []


MAX_FAULTS = 32


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
            value = loads_exact(json_text)
        except RecursionError:
            return (Fault("", "json", "is nested too deeply"),)
        except ValueError as error:
            return (Fault("", "json", f"cannot be read as JSON: {error!s:.120}"),)
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


# Measured: a compiled checker takes 14 to 22 times the text of its schema.
@byte_cached(text_bytes(24))
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


_PATTERN_BYTES = 1 << 20
"""How large a compiled pattern and its automaton may be."""


def pattern_finder(pattern: str) -> Callable[[str], bool]:
    """Return a function that says whether a regular expression occurs in a text, in time linear in the text.

    Raises `ValueError` for an expression that is none, needs backtracking or is too large.
    """
    options = jsonschema_rs.RegexOptions(size_limit=_PATTERN_BYTES, dfa_size_limit=_PATTERN_BYTES)
    try:
        return jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=options).is_valid
    except (ValueError, jsonschema_rs.ValidationError) as error:
        raise ValueError(f"not a regular expression that can be matched in linear time: {pattern[:60]!r}") from error
