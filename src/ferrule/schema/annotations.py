"""Analyze Python annotations: unwrap them, and list the fields of classes that represent objects.

`inference` (annotation to schema) and `python_arguments` (JSON to annotated values) share this module, so that both
read annotations the same way. It does not depend on JSON Schema. It never imports Pydantic: if a function is annotated
with a model, the caller has already imported it.
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
class UnwrappedAnnotation:
    """An annotation without `Annotated`, `NewType` and similar wrappers, and the metadata of `Annotated`."""

    bare: Any
    notes: tuple[object, ...] = ()

    @property
    def origin(self) -> Any:
        """The generic class or form, `Union` for both union syntaxes, or the annotation itself."""
        origin = get_origin(self.bare)
        return Union if origin is types.UnionType else origin or self.bare

    @property
    def arguments(self) -> tuple[Any, ...]:
        return get_args(self.bare)


def unwrap(annotation: Any) -> UnwrappedAnnotation:
    """Remove `Annotated`, `NewType`, type aliases and similar wrappers from an annotation."""
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
            return UnwrappedAnnotation(annotation, notes)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a class that represents an object. `default` is MISSING if there is none to show."""

    name: str
    annotation: Any
    is_required: bool
    default: object = MISSING


def fields_of(cls: Any) -> tuple[Field, ...] | None:
    """The fields of a dataclass, a TypedDict or a NamedTuple; None for any other class."""
    return _read_fields(cls) if isinstance(cls, type) else None


# Cached, because every converted value of the class needs the fields, and resolving hints costs more than converting.
@functools.lru_cache(maxsize=1_024)
def _read_fields(cls: type) -> tuple[Field, ...] | None:
    return next((read(cls) for matches, read in _READERS if matches(cls)), None)


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
    # The class does not see Required and NotRequired in string annotations, so a resolved wrapper takes precedence.
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
    # Not typing.is_typeddict: it does not recognize the classes that typing_extensions makes on older Pythons.
    return issubclass(cls, dict) and hasattr(cast(Any, cls), "__required_keys__")


def _is_named_tuple(cls: Any) -> bool:
    return issubclass(cls, tuple) and hasattr(cast(Any, cls), "_field_defaults")


_READERS: tuple[tuple[Callable[[Any], bool], Callable[[Any], tuple[Field, ...]]], ...] = (
    (dataclasses.is_dataclass, _dataclass_fields),
    (_is_typed_dict, _typed_dict_fields),
    (_is_named_tuple, _named_tuple_fields),
)


def is_pydantic_model(cls: Any) -> bool:
    """Whether a class is a Pydantic model, without importing Pydantic."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(cls, type) and issubclass(cls, pydantic.BaseModel)


def hints_of(thing: Any) -> dict[str, Any]:
    """The annotations of a class or a function, with strings resolved."""
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
    """A parameter that can be passed by name."""

    name: str
    annotation: Any
    default: object = MISSING


def parameters_of(function: Callable[..., object], injected: frozenset[type] = frozenset()) -> tuple[Parameter, ...]:
    """The parameters that a caller passes: without `self`, `cls` and those of an injected type."""
    hints = hints_of(_annotated_function(function))
    parameters: list[Parameter] = []
    for index, parameter in enumerate(inspect.signature(function).parameters.values()):
        annotation = hints.get(parameter.name, Any)
        if (index == 0 and parameter.name in ("self", "cls")) or _is_injected(annotation, injected):
            continue
        if parameter.kind in _UNSUPPORTED_KINDS:
            code, description = _UNSUPPORTED_KINDS[parameter.kind]
            raise SchemaError(
                f"the parameter {parameter.name!r} is {description}, which a schema cannot describe",
                code=code,
                path=f"/properties/{parameter.name}",
                hint="Give the function named parameters, or one parameter of type list or dict.",
            )
        parameters.append(Parameter(parameter.name, annotation, parameter.default))
    return tuple(parameters)


_UNSUPPORTED_KINDS = {
    inspect.Parameter.VAR_POSITIONAL: ("variadic_parameter", "variadic (*args)"),
    inspect.Parameter.VAR_KEYWORD: ("variadic_parameter", "variadic (**kwargs)"),
    inspect.Parameter.POSITIONAL_ONLY: ("positional_only_parameter", "positional-only"),
}


def _annotated_function(function: Any) -> Any:
    """The function that has the annotations: the one behind a partial, or an instance's `__call__`."""
    while isinstance(function, functools.partial):
        function = cast(Any, function).func
    function = inspect.unwrap(function)
    return function if inspect.isroutine(function) or isinstance(function, type) else type(function).__call__


def _is_injected(annotation: Any, injected: frozenset[type]) -> bool:
    unwrapped = unwrap(annotation)
    members = unwrapped.arguments if unwrapped.origin is Union else (unwrapped.origin,)
    return any(isinstance(member, type) and member in injected for member in members)


def literal_values(unwrapped: UnwrappedAnnotation) -> tuple[object, ...] | None:
    """The values of a `Literal`; None for any other annotation."""
    return unwrapped.arguments if unwrapped.origin is Literal else None
