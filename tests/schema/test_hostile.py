"""Hostile schemas: each one is refused, or admitted and harmless, within a limited number of steps."""

import socket
import sys
from collections.abc import Callable
from typing import Any

import pytest

from ferrule.errors import SchemaError
from ferrule.schema.admission import SchemaLimits, admit
from ferrule.schema.checker import Checker
from pace import within


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


def doubled_schema(levels: int, keyword: str = "allOf") -> dict[str, Any]:
    definitions: dict[str, Any] = {
        f"a{level}": {keyword: [{"$ref": f"#/$defs/a{level + 1}"}, {"$ref": f"#/$defs/a{level + 1}"}]}
        for level in range(levels)
    }
    return {"$defs": {**definitions, f"a{levels}": {"type": "string"}}, "$ref": "#/$defs/a0"}


def doubled_by_properties(levels: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {
        f"a{level}": {"properties": {name: {"$ref": f"#/$defs/a{level + 1}"} for name in "xy"}}
        for level in range(levels)
    }
    return {"$defs": {**definitions, f"a{levels}": {}}, "$ref": "#/$defs/a0"}


def doubled_behind_recursion(levels: int) -> dict[str, Any]:
    schema = doubled_schema(levels)
    schema["$defs"][f"a{levels}"] = {"properties": {"again": {"$ref": "#/$defs/a0"}}}
    schema["$ref"] = f"#/$defs/a{levels // 2}"
    return schema


def chain(levels: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {f"a{level}": {"$ref": f"#/$defs/a{level + 1}"} for level in range(levels)}
    return {"$defs": {**definitions, f"a{levels}": {}}, "$ref": "#/$defs/a0"}


def shared_objects(levels: int) -> dict[str, Any]:
    value: Any = "x"
    for _ in range(levels):
        value = [value, value]
    return {"const": value}


def holds_itself() -> dict[str, Any]:
    value: list[Any] = []
    value.append(value)
    return {"default": value}


def is_itself() -> dict[str, Any]:
    schema: dict[str, Any] = {}
    schema["items"] = schema
    return schema


def ring(size: int) -> dict[str, Any]:
    return {"$defs": {f"a{at}": {"$ref": f"#/$defs/a{(at + 1) % size}"} for at in range(size)}, "$ref": "#/$defs/a0"}


REFUSED = [
    ("a reference to a web address", lambda: {"$ref": "http://127.0.0.1:9/schema.json"}, "remote_ref"),
    ("a reference to a file", lambda: {"$ref": "file:///etc/hostname"}, "remote_ref"),
    ("a reference that is only itself", lambda: {"$ref": "#"}, "ref_cycle"),
    ("two references to each other", lambda: ring(2), "ref_cycle"),
    ("a ring of references", lambda: ring(500), "ref_cycle"),
    ("an allOf that doubles 12 times", lambda: doubled_schema(12), "too_many_subschemas"),
    ("an allOf that doubles 26 times", lambda: doubled_schema(26), "too_many_subschemas"),
    ("an allOf that doubles 500 times", lambda: doubled_schema(500), "too_many_subschemas"),
    ("an anyOf that doubles", lambda: doubled_schema(40, "anyOf"), "too_many_subschemas"),
    ("properties that double", lambda: doubled_by_properties(40), "too_many_subschemas"),
    ("doubling hidden behind recursion", lambda: doubled_behind_recursion(30), "too_many_subschemas"),
    ("a long chain of references", lambda: chain(900), "too_deep"),
    ("a schema 400 levels deep", lambda: nested(400), "too_deep"),
    ("a schema 100,000 levels deep", lambda: nested(100_000), "too_deep"),
    ("a schema that is its own item", is_itself, "too_deep"),
    ("a value that holds itself", holds_itself, "too_deep"),
    ("one list held 2 to the 60 times", lambda: shared_objects(60), "too_large"),
    ("an enum of 200,000", lambda: {"enum": list(range(200_000))}, "too_large"),
    ("an enum of 2,000", lambda: {"enum": list(range(2_000))}, "enum_too_large"),
    ("a megabyte of description", lambda: {"description": "x" * 1_000_000}, "too_large"),
    ("an integer of a million digits", lambda: {"const": 1 << 3_400_000}, "too_large"),
    ("an integer that Python cannot print", lambda: {"minimum": 10**5_000}, "too_large"),
    ("repetition of repetition", lambda: {"pattern": "(a{1000}){1000}"}, "pattern_too_large"),
    ("a thousand Unicode classes", lambda: {"pattern": "\\p{L}{1000}"}, "pattern_too_large"),
    ("many patterns", lambda: {"anyOf": [{"pattern": f".{{{at + 900}}}"} for at in range(90)]}, "pattern_too_large"),
    ("a backreference", lambda: {"pattern": "(a*)\\1"}, "pattern_not_linear"),
    ("lookahead", lambda: {"pattern": "^(?=(a+)+$)"}, "pattern_not_linear"),
    ("groups without end", lambda: {"pattern": "(" * 500}, "pattern_too_large"),
]  # fmt: skip


# The work is bounded by the size of the input, whatever it contains.
MAX_CALLS = 6 * SchemaLimits().max_bytes


def calls_during(action: Callable[[], object]) -> int:
    """The number of Python and C function calls, which is the same on every machine."""
    count = 0

    def on_event(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(on_event)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


def refusal_code(schema: object) -> str:
    try:
        admit(schema)
    except SchemaError as refusal:
        return refusal.code
    return ""


@pytest.mark.parametrize("make, code", [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_hostile_schema_is_refused_within_bounds(make: Callable[[], object], code: str) -> None:
    schema = make()
    with within(1):
        assert refusal_code(schema) == code
    assert calls_during(lambda: refusal_code(schema)) < MAX_CALLS


@pytest.mark.parametrize("make", [doubled_schema, doubled_by_properties])
def test_twice_the_doubling_takes_about_twice_the_steps(make: Callable[[int], dict[str, Any]]) -> None:
    once, twice = (calls_during(lambda levels=levels: refusal_code(make(levels))) for levels in (100, 200))
    assert twice < 2.5 * once


def test_no_reference_opens_a_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/schema.json"
        for schema in ({"$ref": address}, {"$schema": address}, {"$id": address, "$ref": "other.json"}):
            assert refusal_code(schema) in ("remote_ref", "unknown_draft")
            with pytest.raises(SchemaError):
                Checker({"$ref": address})
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_a_pattern_that_kills_backtracking_engines_is_harmless() -> None:
    checker = Checker(admit({"pattern": "^(a+)+$"}))
    with within(1):
        assert checker.faults("a" * 50_000 + "!")


def test_unique_items_over_many_objects_is_harmless() -> None:
    checker = Checker(admit({"uniqueItems": True}))
    with within(1):
        assert checker.faults([{"a": number} for number in range(3_000)]) == ()


def test_the_largest_patterns_that_are_admitted_compile_quickly() -> None:
    schemas = [{"pattern": "\\p{L}{99}"}, {"pattern": "[^a]{1000}"}, {"pattern": "(a{99}){99}"}]
    for schema in schemas:
        with within(1):
            Checker(admit(schema))


def test_a_value_nested_beyond_reason_is_a_fault_and_not_a_crash() -> None:
    value: Any = []
    for _ in range(600):
        value = [value]
    checker = Checker(admit({"items": {"$ref": "#"}, "type": "array"}))
    assert all(fault.keyword == "json" for fault in checker.faults(value))
    (fault,) = Checker(admit({"type": "object"})).faults(value)
    assert fault.path == ""
