"""Budget: what one rendering of a chat template may use, counted and not timed. It knows nothing of Jinja.

A template comes with a checkpoint, so it is a stranger's program. Four things are counted while it runs: steps (loop
iterations, calls, filters, operators), characters handled (copied, compared, searched), characters written, and the
size of each value. The size of a container is that of its text: the same list held twice counts twice, since printing
or comparing it would take twice as long. A container is measured once, when it is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeGuard, cast

from ferrule.errors import TemplateError

_HINT = "If the template is to be trusted, give larger Limits."
# Numbers beyond this have no place in a prompt, and take long to multiply and to print.
MOST_BITS = 4096
_ATOM = 8
# A container that was made is kept to the end of the rendering, with what it holds.
_KEPT = 32
_MESSAGES = 200

Container: TypeAlias = Sequence[object] | Mapping[object, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a template may use.

    `source` and `nesting` are of its text; `steps`, `characters` and `output` of one rendering, for every 200 messages
    begun; `value` is the size of any single value, and `range` the length of a counted loop.
    """

    source: int = 128 * 1024
    nesting: int = 100
    steps: int = 1_000_000
    characters: int = 256_000_000
    output: int = 8_000_000
    value: int = 8_000_000
    range: int = 100_000

    def grown(self, messages: int) -> Limits:
        """The limits for that many messages: many templates look through all of them for each one."""
        times = max(1, -(-messages // _MESSAGES))
        return replace(self, steps=self.steps * times, characters=self.characters * times, output=self.output * times)


class Budget:
    """The counters of one rendering; each raises `TemplateError` when it is used up."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.steps = 0
        self.characters = 0
        self.output = 0
        # By identity, with the object itself, so that its identity is not given to another.
        self._sizes: dict[int, tuple[object, int]] = {}
        self._held: set[int] = set()
        self._own: set[int] = set()

    def step(self, count: int = 1) -> None:
        self.steps += count
        if self.steps > self.limits.steps:
            raise over(f"takes more than {self.limits.steps} steps")

    def handle(self, characters: int) -> None:
        """Characters are about to be copied, compared or searched."""
        self.characters += characters
        if self.characters > self.limits.characters:
            raise over(f"handles more than {self.limits.characters} characters")

    def write(self, characters: int) -> None:
        """Characters are about to be written, into the output or into a block that is kept."""
        self.output += characters
        if self.output > self.limits.output:
            raise over(f"writes more than {self.limits.output} characters")

    def fit(self, size: int) -> None:
        """A value of that size is about to be made."""
        self._check_size(size)
        self.handle(size)

    def size(self, value: object) -> int:
        """The characters of a value's text, about; containers are counted once and then known."""
        if isinstance(value, str):
            return len(value)
        if isinstance(value, int):
            if value.bit_length() > MOST_BITS:
                raise over("makes a number too large to print")
            return _ATOM + value.bit_length() // 3
        if isinstance(value, range):
            return _ATOM * len(value)
        if not is_container(value):
            return _ATOM
        known = self._sizes.get(id(value))
        return known[1] if known else self._measure(value)

    def length(self, value: object) -> int:
        """The characters of a text, or the places of a container without what they hold."""
        if isinstance(value, range) or is_container(value):
            return _ATOM * len(value)
        return len(value) if isinstance(value, str) else _ATOM

    def made(self, value: Any) -> Any:
        """A value that was just made, if it is small enough; what it holds may change no more."""
        new: object = value
        if isinstance(new, str):
            # What made it has counted its characters.
            self._check_size(len(new))
        elif is_container(new):
            self._check_size(self.size(new))
            self.handle(_KEPT * len(new))
            self._held.update(map(id, filter(is_container, _children(new))))
        else:
            self.size(new)
        return value

    def written_out(self, value: Any) -> Any:
        """A list, tuple or mapping that stands in the template: new, so that a list among them may still grow."""
        new: object = value
        if isinstance(new, Mapping) and any(isinstance(key, tuple) for key in cast("Mapping[object, object]", new)):
            raise TemplateError("the template uses a tuple as a key", hint="Looking one up takes as long as it is.")
        self._own.add(id(self.made(value)))
        return value

    def append(self, target: list[Any], item: Any) -> None:
        """Lengthen a list that the template wrote. One that another value holds stays: its holder was measured."""
        grown = self.size(target) + _ATOM + self.size(item)
        if is_container(item):
            self._held.add(id(item))
        self._check_own(target)
        self._check_size(grown)
        target.append(item)
        self._sizes[id(target)] = (target, grown)

    def pop(self, target: list[Any], at: int = -1) -> Any:
        """Take an item out of a list that the template made; its size is left as it was, which is safe."""
        self._check_own(target)
        return target.pop(at)

    def _check_size(self, size: int) -> None:
        if size > self.limits.value:
            raise over(f"makes a value of {size} characters, where {self.limits.value} are allowed")

    def _check_own(self, target: list[Any]) -> None:
        if id(target) not in self._own or id(target) in self._held:
            raise TemplateError("the template changes a list that is not its own, or that another value holds")

    def _measure(self, value: Container) -> int:
        """Bottom up and without recursion, so that no depth is too deep."""
        waiting: list[Container] = [value]
        while waiting:
            at = waiting[-1]
            inner = [child for child in _children(at) if is_container(child) and id(child) not in self._sizes]
            if inner:
                waiting.extend(inner)
                self.handle(len(inner))
                continue
            waiting.pop()
            size = _ATOM + sum(_ATOM + self.size(child) for child in _children(at))
            self.handle(_ATOM * len(at))
            self._sizes[id(at)] = (at, size)
        return self._sizes[id(value)][1]


def _children(value: Container) -> Iterable[object]:
    if isinstance(value, Mapping):
        return (part for pair in value.items() for part in pair)
    return value


def is_container(value: object) -> TypeGuard[Container]:
    return isinstance(value, list | tuple | dict)


def over(what: str) -> TemplateError:
    return TemplateError(f"the template {what}", hint=_HINT)
