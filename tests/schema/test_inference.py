import functools
import sys
from subprocess import run
from typing import Annotated, Any, Optional, TypeVar, Union

import pytest
import typing_extensions
from pydantic import Field

from ferrule.errors import SchemaError
from ferrule.schema.admission import admit
from ferrule.schema.checker import Checker
from ferrule.schema.inference import infer
from schema.annotated_types import Card, Context, Node, Owner, Stop, book, everything


def test_a_function_becomes_a_tool() -> None:
    inferred = infer(book)
    assert (inferred.name, inferred.description) == ("book", "Book a trip.")
    assert inferred.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where to go."},
            "days": {"type": "integer", "description": "How long."},
            "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
            "fast": {"type": "boolean", "default": False},
        },
        "required": ["city", "days"],
        "additionalProperties": False,
    }


def properties() -> dict[str, Any]:
    return infer(everything).parameters["properties"]


@pytest.mark.parametrize(
    "name, schema",
    [
        ("level", {"type": "integer", "enum": [1, 2]}),
        ("when", {"type": "string", "format": "date-time"}),
        ("day", {"type": "string", "format": "date"}),
        ("ident", {"type": "string", "format": "uuid"}),
        ("path", {"type": "string", "format": "path"}),
        (
            "pair",
            {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "string", "enum": ["red", "blue"]}],
                "items": False,
                "minItems": 2,
            },
        ),
        ("many", {"type": "array", "items": {"type": "string", "enum": ["red", "blue"]}}),
        ("unique", {"type": "array", "items": {"type": "string", "enum": ["red", "blue"]}, "uniqueItems": True}),
        (
            "by_color",
            {
                "type": "object",
                "propertyNames": {"type": "string", "enum": ["red", "blue"]},
                "additionalProperties": {"type": "integer"},
            },
        ),
        ("sequence", {"type": "array", "items": {"type": "string"}}),
        ("ratio", {"type": "number", "minimum": 0, "maximum": 1, "description": "a share"}),
        ("anything", {}),
        ("untyped", {}),
        ("tree", {"$ref": "#/$defs/Tree"}),
        ("node", {"$ref": "#/$defs/Node"}),
        (
            "stop",
            {
                "type": "object",
                "description": "A station.",
                "properties": {
                    "name": {"type": "string", "description": "What it is called."},
                    "minutes": {"type": "integer", "default": 5},
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["name"],
                "additionalProperties": False,
            },
        ),
        (
            "person",
            {
                "type": "object",
                "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
                "required": ["name"],
                "additionalProperties": False,
            },
        ),
        (
            "box",
            {
                "type": "object",
                "properties": {
                    "width": {"type": "number"},
                    "unit": {"type": "string", "enum": ["cm", "in"], "default": "cm"},
                },
                "required": ["width"],
                "additionalProperties": False,
            },
        ),
    ],
)
def test_each_kind_of_annotation_has_its_schema(name: str, schema: dict[str, object]) -> None:
    assert properties()[name] == schema


def test_what_is_inferred_is_admitted_as_it_stands() -> None:
    for function in (book, everything):
        parameters = infer(function).parameters
        assert admit(parameters) == parameters


def test_a_class_that_contains_itself_is_checked_at_every_level() -> None:
    checker = Checker(
        infer(everything).parameters["properties"]["tree"] | {"$defs": infer(everything).parameters["$defs"]}
    )
    assert checker.faults({"value": 1, "kids": [{"value": 2, "kids": []}]}) == ()
    assert [fault.path for fault in checker.faults({"value": 1, "kids": [{"value": "x"}]})] == ["/kids/0/value"]


def test_a_models_definitions_move_to_the_root() -> None:
    def pay(card: Card) -> None: ...

    parameters = infer(pay).parameters
    assert parameters["$defs"]["Owner"]["properties"]["name"]["minLength"] == 2
    assert "$defs" not in parameters["properties"]["card"]
    assert Checker(admit(parameters)).faults({"card": {"number": "1", "holder": {"name": "Al"}}}) == ()


def test_two_classes_of_one_name_keep_their_own_definitions() -> None:
    other = type(
        "Node", (Node,), {"__annotations__": {"extra": "Node | None"}, "extra": None, "__module__": Node.__module__}
    )

    def visit(a: Node, b: other) -> None: ...  # type: ignore[valid-type]

    parameters = infer(visit).parameters
    a, b = (parameters["properties"][name] for name in "ab")
    assert a != b
    assert admit(parameters) == parameters


def test_optional_and_union_are_alternatives_whatever_their_spelling() -> None:
    def new(a: int | None, b: int | str) -> None: ...

    def old(a: Optional[int], b: Union[int, str]) -> None: ...  # noqa: UP007, UP045

    assert infer(new).parameters == infer(old).parameters


def test_typed_dicts_of_either_library_are_read() -> None:
    class Other(typing_extensions.TypedDict):
        a: int
        b: typing_extensions.NotRequired[str]

    def take(value: Other) -> None: ...

    schema = infer(take).parameters["properties"]["value"]
    assert (list(schema["properties"]), schema["required"]) == (["a", "b"], ["a"])


def test_tuples_without_entries_and_without_a_length_differ() -> None:
    def take(a: tuple, b: tuple[()]) -> None: ...  # type: ignore[type-arg]

    assert infer(take).parameters["properties"] == {"a": {"type": "array"}, "b": {"type": "array", "maxItems": 0}}


def test_a_type_variable_is_its_bound() -> None:
    bound = TypeVar("bound", bound=int)

    def twice(a: bound) -> bound:
        return a

    assert infer(twice).parameters["properties"]["a"] == {"type": "integer"}


def test_self_and_injected_parameters_are_left_out() -> None:
    class Shop:
        def sell(self, item: str, context: Context, maybe: Context | None = None) -> None: ...

    for function in (Shop.sell, Shop().sell):
        inferred = infer(function, injected=frozenset({Context}))
        assert list(inferred.parameters["properties"]) == ["item"]


def test_callables_that_are_not_plain_functions_are_read_too() -> None:
    class Greeter:
        """Greet."""

        def __call__(self, name: str) -> None: ...

    @functools.wraps(book)
    def wrapped(*args: object, **kwargs: object) -> object:
        return book(*args, **kwargs)  # type: ignore[arg-type]

    assert infer(Greeter()).parameters["required"] == ["name"]
    assert infer(Greeter()).name == "Greeter"
    assert infer(wrapped) == infer(book)
    assert "default" in infer(functools.partial(book, days=3)).parameters["properties"]["days"]


def test_a_default_that_is_not_json_is_not_shown() -> None:
    def run_it(stop: Stop = Stop("x"), most: float = float("inf"), pair: tuple[int, ...] = (1, 2)) -> None: ...  # noqa: B008

    schema = infer(run_it).parameters
    assert "default" not in schema["properties"]["stop"]
    assert "default" not in schema["properties"]["most"]
    assert schema["properties"]["pair"]["default"] == [1, 2]
    assert "required" not in schema


def variadic(*args: int) -> None: ...


def keywords(**kwargs: int) -> None: ...


def positional(a: int, /) -> None: ...


def binary(a: bytes) -> None: ...


def deep_binary(a: dict[str, list[bytes]]) -> None: ...


def odd(a: complex) -> None: ...


def odd_keys(a: dict[int, str]) -> None: ...


def unresolved(a: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    "function, code, path",
    [
        (variadic, "variadic_parameter", "/properties/args"),
        (keywords, "variadic_parameter", "/properties/kwargs"),
        (positional, "positional_only_parameter", "/properties/a"),
        (binary, "unsupported_annotation", "/properties/a"),
        (deep_binary, "unsupported_annotation", "/properties/a/*/items"),
        (odd, "unsupported_annotation", "/properties/a"),
        (odd_keys, "unsupported_annotation", "/properties/a/propertyNames"),
        (unresolved, "unresolved_annotation", ""),
        (lambda a: a, "unnamed_function", ""),
    ],
)
def test_what_has_no_faithful_schema_is_refused_by_name(function: Any, code: str, path: str) -> None:
    with pytest.raises(SchemaError) as refused:
        infer(function)
    assert (refused.value.code, refused.value.path) == (code, path)
    assert refused.value.hint


def test_inference_does_not_import_pydantic() -> None:
    code = "import sys, ferrule.schema.inference, ferrule.schema.python_arguments; sys.exit('pydantic' in sys.modules)"
    assert run([sys.executable, "-c", code], check=False, env={"PYTHONPATH": ":".join(sys.path)}).returncode == 0


def test_a_models_own_descriptions_are_kept() -> None:
    def call(owner: Owner) -> None: ...

    assert infer(call).parameters["properties"]["owner"]["properties"]["name"]["description"] == "who holds it"


def test_a_length_beside_several_types_is_of_each_that_has_one() -> None:
    def f(
        text: Annotated[str | None, Field(max_length=3)] = None,
        words: Annotated[list[str] | str | None, Field(min_length=1)] = None,
        count: Annotated[int | None, Field(ge=1)] = None,
    ) -> None: ...

    properties = infer(f).parameters["properties"]
    assert properties["text"]["maxLength"] == 3
    assert (properties["words"]["minItems"], properties["words"]["minLength"]) == (1, 1)
    assert properties["count"].keys() & {"minLength", "minItems"} == set()
    checker = Checker(admit(infer(f).parameters))
    assert not checker.faults({"text": "abc", "words": ["a"], "count": None})
    assert checker.faults({"text": "abcd"})
    assert checker.faults({"words": []})


def test_json_schema_extra_of_a_field_is_kept() -> None:
    def f(day: Annotated[str, Field(json_schema_extra={"format": "date"})]) -> None: ...

    assert infer(f).parameters["properties"]["day"] == {"type": "string", "format": "date"}
