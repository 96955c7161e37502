"""Read the options, arguments and subcommands of an argparse parser as values.

argparse has no public API for this. All use of its private attributes is in this module.
"""

from __future__ import annotations

from argparse import SUPPRESS, Action, ArgumentParser, _HelpAction, _SubParsersAction  # pyright: ignore[reportPrivateUsage]
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

# Types that can be checked without opening a file.
_JUDGED_BY_LOOKING_ALONE = (int, float)


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `names` is empty for a positional argument. `value` is its metavar, empty for a flag."""

    names: tuple[str, ...]
    value: str
    help: str
    is_required: bool


def options_of(parser: ArgumentParser) -> list[Option]:
    """All options except `--help`, in the order in which they were added."""
    return [_option(action, parser) for action in _actions(parser) if not isinstance(action, _HelpAction)]


def commands_of(parser: ArgumentParser) -> Mapping[str, tuple[str, ArgumentParser]]:
    """The subcommands of a parser: the help text and the parser of each."""
    commands: dict[str, tuple[str, ArgumentParser]] = {}
    for action in _all(parser):
        if isinstance(action, _SubParsersAction):
            below = cast("_SubParsersAction[ArgumentParser]", action)
            help_by_name = {one.dest: one.help or "" for one in _choice_actions(below)}
            commands |= {name: (help_by_name.get(name, ""), inner) for name, inner in below.choices.items()}
    return commands


def take_any_file(parser: ArgumentParser) -> None:
    """Make the parser and its subcommands check syntax only: no value is looked up or opened."""
    for action in _all(parser):
        kind = cast("Callable[[str], Any] | None", action.type)
        if kind not in _JUDGED_BY_LOOKING_ALONE:
            action.type = None
    for _, inner in commands_of(parser).values():
        take_any_file(inner)


def _option(action: Action, parser: ArgumentParser) -> Option:
    help_text = (action.help or "").replace("%(default)s", str(action.default)).replace("%(prog)s", parser.prog)
    is_required = action.required if action.option_strings else action.nargs not in ("?", "*")
    return Option(tuple(action.option_strings), _value(action), help_text, is_required)


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


def _choice_actions(action: _SubParsersAction[ArgumentParser]) -> list[Action]:
    return action._choices_actions  # pyright: ignore[reportPrivateUsage]
