"""What an argparse parser holds, as values: its options, its arguments and the commands below it.

argparse tells nobody this but by printing it. Every look at its private parts is in this file.
"""

from __future__ import annotations

from argparse import SUPPRESS, Action, ArgumentParser, _HelpAction, _SubParsersAction  # pyright: ignore[reportPrivateUsage]
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

# Texts that are numbers or choices can be judged without looking at a file.
_JUDGED_BY_LOOKING_ALONE = (int, float)


@dataclass(frozen=True, slots=True)
class Option:
    """`names` is empty where it is given by its place alone. `value` is how a value is spelled, empty for a flag."""

    names: tuple[str, ...]
    value: str
    help: str
    is_required: bool


def options_of(parser: ArgumentParser) -> list[Option]:
    """All but `--help`, in the order in which they were added."""
    return [_option(action, parser) for action in _actions(parser) if not isinstance(action, _HelpAction)]


def commands_of(parser: ArgumentParser) -> Mapping[str, tuple[str, ArgumentParser]]:
    """The commands below a parser: what is said of each in the list, and its own parser."""
    found: dict[str, tuple[str, ArgumentParser]] = {}
    for action in _all(parser):
        if isinstance(action, _SubParsersAction):
            below = cast("_SubParsersAction[ArgumentParser]", action)
            listed = {one.dest: one.help or "" for one in _listed(below)}
            found |= {name: (listed.get(name, ""), inner) for name, inner in below.choices.items()}
    return found


def take_any_file(parser: ArgumentParser) -> None:
    """Make the parser judge spelling alone, here and in every command below: no value is looked up or opened."""
    for action in _all(parser):
        kind = cast("Callable[[str], Any] | None", action.type)
        if kind not in _JUDGED_BY_LOOKING_ALONE:
            action.type = None
    for _, inner in commands_of(parser).values():
        take_any_file(inner)


def _option(action: Action, parser: ArgumentParser) -> Option:
    told = (action.help or "").replace("%(default)s", str(action.default)).replace("%(prog)s", parser.prog)
    is_required = action.required if action.option_strings else action.nargs not in ("?", "*")
    return Option(tuple(action.option_strings), _value(action), told, is_required)


def _value(action: Action) -> str:
    if action.nargs == 0:
        return ""
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else ""
    name = action.metavar if isinstance(action.metavar, str) else choices or action.dest.upper()
    many = {"*": f"[{name} ...]", "+": f"{name} ...", "?": f"[{name}]"}
    return many.get(str(action.nargs), name)


def _actions(parser: ArgumentParser) -> list[Action]:
    return [one for one in _all(parser) if not isinstance(one, _SubParsersAction) and one.help != SUPPRESS]


def _all(parser: ArgumentParser) -> list[Action]:
    return parser._actions  # pyright: ignore[reportPrivateUsage]


def _listed(action: _SubParsersAction[ArgumentParser]) -> list[Action]:
    return action._choices_actions  # pyright: ignore[reportPrivateUsage]
