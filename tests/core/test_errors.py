"""Every error says what a program and a person need to know, and the tree in the docstring is the tree of classes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from ferrule import FerruleError, SchemaError, UnrenderableError, errors
from ferrule.errors import HookError, InterruptedAnswerError


def tree_of(cls: type[FerruleError]) -> Iterator[tuple[str, str]]:
    """Each class under `cls` with its parent's name."""
    for child in cls.__subclasses__():
        if child.__module__ == errors.__name__:
            yield child.__name__, cls.__name__
            yield from tree_of(child)


def tree_in_docstring() -> Iterator[tuple[str, str]]:
    above: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        drawn = re.match(r"^([ │├└─]{4,})(\w+Error)\b", line)
        if not drawn:
            continue
        column, name = len(drawn[1]), drawn[2]
        above = [(at, parent) for at, parent in above if at < column]
        if above:
            yield name, above[-1][1]
        above.append((column, name))


EXTRA_ARGUMENTS = {
    UnrenderableError: {"where": "here"},
    InterruptedAnswerError: {"conversation": "conv_1"},
    HookError: {"hook": "brief"},
}
CLASSES = [FerruleError, *(getattr(errors, name) for name, _ in tree_of(FerruleError))]


def make_error(cls: type[FerruleError], hint: str = "") -> FerruleError:
    return cls("it broke", hint=hint, **EXTRA_ARGUMENTS.get(cls, {}))


def test_the_drawn_tree_names_every_class_under_its_parent() -> None:
    assert dict(tree_in_docstring()) == dict(tree_of(FerruleError))


@pytest.mark.parametrize("cls", CLASSES)
def test_an_error_has_a_code_a_status_and_says_whether_to_try_again(cls: type[FerruleError]) -> None:
    error = make_error(cls)
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", error.code)
    assert error.status in range(400, 600)
    assert isinstance(error.retryable, bool)
    assert isinstance(error.hint, str)
    assert cls.__doc__


@pytest.mark.parametrize("cls", CLASSES)
def test_a_hint_is_kept_and_shown_with_the_traceback(cls: type[FerruleError]) -> None:
    error = make_error(cls, hint="Mend it.")
    assert error.hint == "Mend it."
    assert error.__notes__ == ["hint: Mend it."]
    assert "it broke" in str(error)


def test_codes_tell_the_classes_apart() -> None:
    codes = [cls.code for cls in CLASSES]
    assert len(codes) == len(set(codes))


def test_an_error_may_have_a_narrower_code_than_its_class() -> None:
    assert SchemaError("too deep", code="too_deep").code == "too_deep"
    assert SchemaError.code == "bad_schema"


def test_a_schema_error_names_the_place() -> None:
    error = SchemaError("is no schema", path="/properties/a")
    assert error.path == "/properties/a"
    assert str(error) == "/properties/a: is no schema"


def test_an_unrenderable_part_is_named() -> None:
    error = UnrenderableError("it was cut off", where="the call of 'ping'")
    assert error.where == "the call of 'ping'"
    assert str(error) == "the call of 'ping': it was cut off"
