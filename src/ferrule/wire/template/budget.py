"""Budget: the resources that one rendering of a chat template may use, counted and not timed. Independent of Jinja.

A template comes with a checkpoint, so it is untrusted code. Four things are counted while it runs: steps (loop
iterations, calls, filters, operators), characters handled (copied, compared, searched), characters written, and the
size of each value. The size of a container is that of its text: a list that is contained twice counts twice, because
printing or comparing it takes twice as long. A container is measured once, when it is created.

A time limit was not chosen because it depends on the machine: the same template would pass on one and fail on another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeGuard, cast

from ferrule.errors import TemplateError
from ferrule.wire.template.tool_object import ToolObject

_HINT = "If you trust the template, pass larger TemplateLimits."
# Numbers beyond this have no place in a prompt, and take long to multiply and to print.
MAX_BITS = 4096
_ATOM_SIZE = 8
# A container lives until the end of the rendering, so each one costs memory beside its content.
_CONTAINER_COST = 32
_MESSAGES_PER_GRANT = 200

Container: TypeAlias = Sequence[object] | Mapping[object, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateLimits:
    """The limits for a chat template.

    `source` and `nesting` limit its source text. `steps`, `characters` and `output` limit one rendering, per 200
    messages or part of them. `value` limits the size of any single value, and `range` the length of a counted loop.
    """

    source: int = 128 * 1024
    nesting: int = 100
    steps: int = 1_000_000
    characters: int = 256_000_000
    output: int = 8_000_000
    value: int = 8_000_000
    range: int = 100_000

    def scale_to(self, messages: int) -> TemplateLimits:
        """Return the limits for that many messages. Many templates loop over all messages for each message."""
        times = max(1, -(-messages // _MESSAGES_PER_GRANT))
        return replace(self, steps=self.steps * times, characters=self.characters * times, output=self.output * times)


class Budget:
    """The counters of one rendering. Each raises `TemplateError` when its limit is exceeded."""

    def __init__(self, limits: TemplateLimits) -> None:
        self.limits = limits
        self.steps = 0
        self.characters = 0
        self.output = 0
        # Keyed by id(). The object is stored too, so that its id() is not reused.
        self._sizes: dict[int, tuple[object, int]] = {}
        self._nested_ids: set[int] = set()
        self._own_ids: set[int] = set()

    def step(self, count: int = 1) -> None:
        self.steps += count
        if self.steps > self.limits.steps:
            raise limit_error(f"takes more than {self.limits.steps} steps")

    def handle(self, characters: int) -> None:
        """Count characters that are about to be copied, compared or searched."""
        self.characters += characters
        if self.characters > self.limits.characters:
            raise limit_error(f"handles more than {self.limits.characters} characters")

    def write(self, characters: int) -> None:
        """Count characters that are about to be written, to the output or to a captured block."""
        self.output += characters
        if self.output > self.limits.output:
            raise limit_error(f"writes more than {self.limits.output} characters")

    def fit(self, size: int) -> None:
        """Count a value of that size that is about to be created."""
        self._check_size(size)
        self.handle(size)

    def size(self, value: object) -> int:
        """The approximate number of characters of a value's text. Cached for containers."""
        if isinstance(value, str):
            return len(value)
        if isinstance(value, int):
            if value.bit_length() > MAX_BITS:
                raise limit_error("creates a number too large to print")
            return _ATOM_SIZE + value.bit_length() // 3
        if isinstance(value, range):
            return _ATOM_SIZE * len(value)
        if not is_container(value):
            return _ATOM_SIZE
        entry = self._sizes.get(id(value))
        if entry:
            return entry[1]
        return self._measure_tool(value) if isinstance(value, ToolObject) else self._measure(value)

    def length(self, value: object) -> int:
        """The characters of a text, or the items of a container without their content."""
        if isinstance(value, range) or is_container(value):
            return _ATOM_SIZE * len(value)
        return len(value) if isinstance(value, str) else _ATOM_SIZE

    def admit_value(self, value: Any) -> Any:
        """Return a new value, if it is small enough. The containers in it may not be changed any more."""
        new: object = value
        if isinstance(new, str):
            # The operation that created it has counted its characters.
            self._check_size(len(new))
        elif is_container(new):
            self._check_size(self.size(new))
            self.handle(_CONTAINER_COST * len(new))
            self._nested_ids.update(map(id, filter(is_container, _children(new))))
        else:
            self.size(new)
        return value

    def admit_literal(self, value: Any) -> Any:
        """Return a list, tuple or mapping literal of the template. A list among them may still be appended to."""
        new: object = value
        if isinstance(new, Mapping) and any(isinstance(key, tuple) for key in cast("Mapping[object, object]", new)):
            raise TemplateError(
                "the template uses a tuple as a key",
                hint="Use a text or a number: looking up a tuple takes time in proportion to its length.",
            )
        self._own_ids.add(id(self.admit_value(value)))
        return value

    def append(self, target: list[Any], item: Any) -> None:
        """Append to a list that the template created. A list inside another, already measured value is refused."""
        new_size = self.size(target) + _ATOM_SIZE + self.size(item)
        if is_container(item):
            self._nested_ids.add(id(item))
        self._check_own(target)
        self._check_size(new_size)
        target.append(item)
        self._sizes[id(target)] = (target, new_size)

    def pop(self, target: list[Any], at: int = -1) -> Any:
        """Remove an item from a list that the template created. The recorded size stays, which is safe."""
        self._check_own(target)
        return target.pop(at)

    def _check_size(self, size: int) -> None:
        if size > self.limits.value:
            raise limit_error(f"creates a value of {size} characters; {self.limits.value} are allowed")

    def _check_own(self, target: list[Any]) -> None:
        if id(target) not in self._own_ids or id(target) in self._nested_ids:
            raise TemplateError("the template changes a list that it did not create, or that is inside another value")

    def _measure_tool(self, value: ToolObject) -> int:
        """The size of a part of a tool, which costs the same in the first rendering and in later ones."""
        if value.kept_measure is None:
            own = Budget(self.limits)
            value.kept_measure = (own._measure(cast("Container", value)), own.characters)
        size, cost = value.kept_measure
        self.handle(cost)
        self._sizes[id(value)] = (value, size)
        return size

    def _measure(self, value: Container) -> int:
        """Measure bottom up and without recursion, so that nesting cannot exhaust the stack."""
        pending: list[Container] = [value]
        while pending:
            at = pending[-1]
            inner = [
                child
                for child in _children(at)
                if is_container(child) and id(child) not in self._sizes and not isinstance(child, ToolObject)
            ]
            if inner:
                pending.extend(inner)
                self.handle(len(inner))
                continue
            pending.pop()
            size = _ATOM_SIZE + sum(_ATOM_SIZE + self.size(child) for child in _children(at))
            self.handle(_ATOM_SIZE * len(at))
            self._sizes[id(at)] = (at, size)
        return self._sizes[id(value)][1]


def _children(value: Container) -> Iterable[object]:
    if isinstance(value, Mapping):
        return (part for pair in value.items() for part in pair)
    return value


def is_container(value: object) -> TypeGuard[Container]:
    return isinstance(value, list | tuple | dict)


def limit_error(what: str) -> TemplateError:
    return TemplateError(f"the template {what}", hint=_HINT)
