"""Hooks by name: the ready ones, and those of a module of the operator's, as `[tools] hooks` lists them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from ferrule.errors import DefinitionError
from ferrule.run.hooks import Hook
from ferrule.run.small_model_hooks import READY_HOOKS
from ferrule.server.config.layers import ConfigProblem, suggest
from ferrule.server.config.python_module import load_module

_HINT = "Write @before_call above the function, or name = Hook(before_call=function)."


def find_hook_errors(names: Iterable[str]) -> Iterator[ConfigProblem]:
    """Find names that can name no hook. Nothing is imported."""
    for name in names:
        if ":" not in name and name not in READY_HOOKS:
            remedy = f"{suggest(name, READY_HOOKS, 'hooks')}, or module:name"
            yield ConfigProblem("tools.hooks", f"unknown hook {name!r}", remedy)


def load_hooks(names: Iterable[str], *, is_fresh: bool = False) -> tuple[Hook, ...]:
    """Return the hooks of these names, in their order. A module may also have a list of hooks under a name.

    With `is_fresh` a module that was loaded before is read again.
    """
    return tuple(hook for name in names for hook in _load(name, is_fresh))


def _load(name: str, is_fresh: bool) -> Iterator[Hook]:
    if name in READY_HOOKS:
        yield READY_HOOKS[name]
        return
    where, _, attribute = name.rpartition(":")
    if not where:
        raise DefinitionError(f"tools.hooks: unknown hook {name!r}", hint=f"Ready hooks: {', '.join(READY_HOOKS)}.")
    try:
        module = load_module(where, is_fresh=is_fresh)
    except DefinitionError as problem:
        hint = "Write my_module:NAME or my_hooks.py:NAME, relative to the current directory."
        raise DefinitionError(f"tools.hooks: {problem.message}", hint=hint) from problem
    value: object = getattr(module, attribute, None)
    for one in cast("list[object]", value) if isinstance(value, list | tuple) else [value]:
        if not isinstance(one, Hook):
            what = f"{attribute} is not a hook" if hasattr(module, attribute) else f"{where} has no {attribute!r}"
            raise DefinitionError(f"tools.hooks: {name}: {what}", hint=_HINT)
        yield one
