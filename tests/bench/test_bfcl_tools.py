import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.bench.bfcl_tools import ANYTHING, RULES, distinct_documents, function_documents, normalize_types

JSON_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
type_names = st.sampled_from([*JSON_TYPES, *RULES])


def _nested(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    # A property may be called as a keyword is, which must not make it one.
    by_name = st.dictionaries(st.sampled_from(["type", "items", "properties", "a"]), inner, max_size=3)
    return st.fixed_dictionaries({"type": type_names}, optional={"properties": by_name, "items": inner})


schemas = st.recursive(st.fixed_dictionaries({"type": type_names}), _nested, max_leaves=12)


def types_in(schema: dict[str, Any]) -> list[str]:
    inner = [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]
    return [*([schema["type"]] if "type" in schema else []), *(name for child in inner for name in types_in(child))]


@given(schema=schemas)
def test_only_types_of_json_are_left(schema: dict[str, Any]):
    assert set(types_in(normalize_types(schema)[0])) <= set(JSON_TYPES)


@given(schema=schemas)
def test_every_replaced_name_is_counted_once_for_each_place(schema: dict[str, Any]):
    assert normalize_types(schema)[1] == Counter(name for name in types_in(schema) if name in RULES)


@given(schema=schemas)
def test_a_second_pass_finds_nothing_to_do(schema: dict[str, Any]):
    once, _ = normalize_types(schema)
    assert normalize_types(once) == (once, Counter())


@pytest.mark.parametrize("name", RULES)
def test_each_rule_of_the_table_gives_its_type_or_none(name: str):
    expected = {} if RULES[name] == ANYTHING else {"type": RULES[name]}
    assert normalize_types({"type": name})[0] == expected


def test_keywords_that_hold_no_schema_stay_as_they_are():
    schema = {"type": "string", "enum": ["dict", "float"], "default": {"type": "float"}, "description": "any"}
    assert normalize_types(schema) == (schema, Counter())


def test_a_name_that_the_table_does_not_know_is_left_for_admission_to_refuse():
    assert normalize_types({"type": "Quaternion"}) == ({"type": "Quaternion"}, Counter())


def test_documents_come_from_questions_and_from_the_shared_files(tmp_path: Path):
    shared = tmp_path / "multi_turn_func_doc"
    shared.mkdir()
    first, second, third = ({"name": name, "description": "", "parameters": {"type": "dict"}} for name in "abc")
    (tmp_path / "BFCL_v4_one.json").write_text(json.dumps({"function": [first, second]}) + "\n")
    (tmp_path / "BFCL_v4_two.json").write_text(json.dumps({"function": first}) + "\n" + json.dumps({"id": "x"}))
    (tmp_path / "BFCL_v4_sets.json").write_text(json.dumps({"one": ["id_1"]}, indent=4))
    (shared / "api.json").write_text(json.dumps({**third, "response": {"type": "dict"}}))
    documents = function_documents(tmp_path)
    assert [document["name"] for document in documents] == ["a", "b", "a", "c"]
    assert [(one.name, one.rules) for one in distinct_documents(documents)] == [
        (name, Counter({"dict": 1})) for name in "abc"
    ]
