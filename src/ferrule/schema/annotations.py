"""What a Python annotation is made of: unwrapped, with its notes, and the fields of classes that stand for objects.

Shared by `infer` (annotation to schema) and `to_python` (JSON to annotated values), so that the two see the same.
Must not know JSON Schema. Pydantic is never imported: a model can only be annotated where somebody else imported it.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, Required, TypeVar, Union, cast, get_args, get_origin

from ferrule.errors import SchemaError

MISSING = inspect.Parameter.empty
_WRAPPERS = (typing.Final, typing.ClassVar, Required, NotRequired, dataclasses.InitVar)


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """An annotation without `Annotated`, `NewType` and the like, and the notes that `Annotated` held."""

    bare: Any
    notes: tuple[object, ...] = ()

    @property
    def origin(self) -> Any:
        """The generic class or form, `Union` for both spellings of one, or the annotation itself."""
        origin = get_origin(self.bare)
        return Union if origin is types.UnionType else origin or self.bare

    @property
    def arguments(self) -> tuple[Any, ...]:
        return get_args(self.bare)


def unwrap(annotation: Any) -> Unwrapped:
    notes: tuple[object, ...] = ()
    while True:
        origin = get_origin(annotation)
        if origin is Annotated:
            notes += tuple(annotation.__metadata__)
            annotation = annotation.__origin__
        elif origin in _WRAPPERS:
            annotation = get_args(annotation)[0]
        elif isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif isinstance(annotation, TypeVar):
            annotation = annotation.__bound__ or Any
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        else:
            return Unwrapped(annotation, notes)


@dataclass(frozen=True, slots=True)
class Field:
    """A named part of a class that stands for an object. `default` is MISSING where there is none to show."""

    name: str
    annotation: Any
    is_required: bool
    default: object = MISSING


def fields_of(cls: Any) -> tuple[Field, ...] | None:
    """The fields of a dataclass, a TypedDict or a NamedTuple; None for any other class."""
    return _read_fields(cls) if isinstance(cls, type) else None


# Kept, because every value that is made of the class asks, and resolving its hints takes longer than making it.
@functools.lru_cache(maxsize=1_024)
def _read_fields(cls: type) -> tuple[Field, ...] | None:
    return next((read(cls) for is_one, read in _READERS if is_one(cls)), None)


def _dataclass_fields(cls: Any) -> tuple[Field, ...]:
    hints = hints_of(cls)
    return tuple(
        Field(
            field.name,
            hints[field.name],
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
            MISSING if field.default is dataclasses.MISSING else field.default,
        )
        for field in dataclasses.fields(cls)
        if field.init
    )


def _typed_dict_fields(cls: Any) -> tuple[Field, ...]:
    required = cast("frozenset[str]", cls.__required_keys__)
    # The class cannot see Required and NotRequired where annotations are strings, so a wrapper that is there wins.
    wrapped = {Required: True, NotRequired: False}
    return tuple(
        Field(name, hint, wrapped.get(get_origin(hint), name in required)) for name, hint in hints_of(cls).items()
    )


def _named_tuple_fields(cls: Any) -> tuple[Field, ...]:
    hints = hints_of(cls)
    defaults = cast("dict[str, object]", cls._field_defaults)
    names = cast("tuple[str, ...]", cls._fields)
    return tuple(Field(name, hints.get(name, Any), name not in defaults, defaults.get(name, MISSING)) for name in names)


def _is_typed_dict(cls: Any) -> bool:
    # Not typing.is_typeddict: it does not know the classes that typing_extensions makes on older Pythons.
    return issubclass(cls, dict) and hasattr(cast(Any, cls), "__required_keys__")


def _is_named_tuple(cls: Any) -> bool:
    return issubclass(cls, tuple) and hasattr(cast(Any, cls), "_field_defaults")


_READERS: tuple[tuple[Callable[[Any], bool], Callable[[Any], tuple[Field, ...]]], ...] = (
    (dataclasses.is_dataclass, _dataclass_fields),
    (_is_typed_dict, _typed_dict_fields),
    (_is_named_tuple, _named_tuple_fields),
)


def is_pydantic_model(cls: Any) -> bool:
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(cls, type) and issubclass(cls, pydantic.BaseModel)


def hints_of(thing: Any) -> dict[str, Any]:
    """The annotations of a class or a function, strings resolved."""
    try:
        return typing.get_type_hints(thing, include_extras=True)
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        raise SchemaError(
            f"an annotation of {getattr(thing, '__name__', thing)!r:.60} cannot be resolved: {error}",
            code="unresolved_annotation",
            hint="Define the type at module level, or annotate with the type itself instead of its name.",
        ) from None


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter that is called by name."""

    name: str
    annotation: Any
    default: object = MISSING


def parameters_of(function: Callable[..., object], injected: frozenset[type] = frozenset()) -> tuple[Parameter, ...]:
    """The parameters that a caller fills in: without `self`, `cls` and those whose type is injected."""
    hints = hints_of(_annotated(function))
    found: list[Parameter] = []
    for index, parameter in enumerate(inspect.signature(function).parameters.values()):
        annotation = hints.get(parameter.name, Any)
        if (index == 0 and parameter.name in ("self", "cls")) or _is_injected(annotation, injected):
            continue
        if parameter.kind in _UNCALLABLE:
            code, what = _UNCALLABLE[parameter.kind]
            raise SchemaError(
                f"the parameter {parameter.name!r} is {what}, which no schema can name",
                code=code,
                path=f"/properties/{parameter.name}",
                hint="Give the function named parameters, or one parameter of type list or dict.",
            )
        found.append(Parameter(parameter.name, annotation, parameter.default))
    return tuple(found)


_UNCALLABLE = {
    inspect.Parameter.VAR_POSITIONAL: ("variadic_parameter", "variadic (*args)"),
    inspect.Parameter.VAR_KEYWORD: ("variadic_parameter", "variadic (**kwargs)"),
    inspect.Parameter.POSITIONAL_ONLY: ("positional_only_parameter", "positional-only"),
}


def _annotated(function: Any) -> Any:
    """The function that carries the annotations: behind a partial, or the call of an instance."""
    while isinstance(function, functools.partial):
        function = cast(Any, function).func
    function = inspect.unwrap(function)
    return function if inspect.isroutine(function) or isinstance(function, type) else type(function).__call__


def _is_injected(annotation: Any, injected: frozenset[type]) -> bool:
    unwrapped = unwrap(annotation)
    members = unwrapped.arguments if unwrapped.origin is Union else (unwrapped.origin,)
    return any(isinstance(member, type) and member in injected for member in members)


def literal_values(unwrapped: Unwrapped) -> tuple[object, ...] | None:
    return unwrapped.arguments if unwrapped.origin is Literal else None
