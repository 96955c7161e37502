from typing import Any

from ferrule.schema.admission import admit
from ferrule.schema.inference import hoist


def free_in(definitions: dict[str, object]) -> Any:
    return lambda name: name if name not in definitions else f"{name}_2"


def test_definitions_move_out_under_their_own_names() -> None:
    definitions: dict[str, object] = {}
    schema = {"$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"}
    assert hoist(schema, definitions, free_in(definitions)) == {"$ref": "#/$defs/a"}
    assert definitions == {"a": {"items": {"$ref": "#/$defs/a"}}}


def test_a_name_that_is_taken_is_changed_and_every_reference_follows() -> None:
    definitions: dict[str, object] = {"a": {"type": "null"}}
    schema = {
        "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}},
        "properties": {"x": {"$ref": "#/$defs/b"}, "y": {"$ref": "#/$defs/a"}},
    }
    moved = hoist(schema, definitions, free_in(definitions))
    assert moved == {"properties": {"x": {"$ref": "#/$defs/b"}, "y": {"$ref": "#/$defs/a_2"}}}
    assert definitions == {
        "a": {"type": "null"},
        "a_2": {"items": {"$ref": "#/$defs/a_2"}},
        "b": {"anyOf": [{"$ref": "#/$defs/a_2"}]},
    }
    admit({**moved, "$defs": definitions})


def test_the_same_definition_twice_is_kept_once() -> None:
    definitions: dict[str, object] = {}
    for _ in range(2):
        hoist({"$defs": {"a": {"type": "string"}}, "$ref": "#/$defs/a"}, definitions, free_in(definitions))
    assert definitions == {"a": {"type": "string"}}
