"""The environment as a layer of what was given: FERRULE_TABLE_SETTING, and FERRULE_TABLE_NAME_SETTING for named tables.

In a variable, a name has capitals, and _ for whatever is no letter or digit. A variable that begins as a table's and
names no setting is a mistake; all others are none of ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ferrule.server.config.layers import Given, Mistake, Place, meant
from ferrule.server.config.tables import PREFIX, TABLES, Table, variables_of

_PLAIN = {
    variable: (table.name, one.name)
    for table in TABLES.values()
    if not table.is_named
    for one in table.settings.values()
    # Backwards, so that ours counts where both spellings of a tool setting are set.
    for variable in reversed(variables_of(one))
}


def in_variable(name: str) -> str:
    """A name as it stands in a variable."""
    return re.sub(r"[^A-Z0-9]", "_", name.upper())


def given_in_environment(
    environment: Mapping[str, str], known: Iterable[Place] = ()
) -> tuple[dict[Place, Given], list[Mistake]]:
    """What the variables give. `known` are places that others gave: their names are recognised in variables."""
    given: dict[Place, Given] = {}
    mistakes: list[Mistake] = []
    for variable in sorted(environment, key=lambda name: name.startswith(PREFIX)):
        if variable in _PLAIN:
            given[_PLAIN[variable]] = Given(environment[variable], f"${variable}", is_text=True)
    places = list(known)
    for table in TABLES.values():
        begin = f"{PREFIX}{table.name.upper()}_"
        ours = {name.removeprefix(begin): name for name in environment if name.startswith(begin)}
        if table.is_named:
            names = {place[1] for place in places if place[0] == table.name and len(place) > 1}
            _read_named(table, names, ours, environment, given, mistakes)
        else:
            mistakes += [_strange(name, table) for name in ours.values() if name not in _PLAIN]
    return given, mistakes


def _read_named(
    table: Table,
    names: set[str],
    ours: Mapping[str, str],
    environment: Mapping[str, str],
    given: dict[Place, Given],
    mistakes: list[Mistake],
) -> None:
    spelled: dict[str, list[str]] = {}
    for name in sorted(names | _new_names(table, names, ours)):
        spelled.setdefault(in_variable(name), []).append(name)
    for rest, variable in sorted(ours.items()):
        # The longest, so that BIG_TWO_USE belongs to big-two and not to big.
        found = max((one for one in spelled if rest.startswith(f"{one}_")), key=len, default=None)
        setting = rest.removeprefix(f"{found}_").lower()
        if found is None:
            required = ", ".join(key.upper() for key, one in table.settings.items() if one.is_required)
            remedy = f"A new one is made by FERRULE_{table.name.upper()}_NAME_{required}"
            mistakes.append(Mistake(f"${variable}", f"it belongs to none of the {table.name}", remedy))
        elif len(spelled[found]) > 1:
            both = " and ".join(spelled[found])
            mistakes.append(Mistake(f"${variable}", f"it could be of {both}", "Rename one of them"))
        elif setting not in table.settings and not table.takes_others:
            what = f"{setting} is not known in {table.name}"
            mistakes.append(Mistake(f"${variable}", what, meant(setting, table.settings, "settings")))
        else:
            place = (table.name, spelled[found][0])
            given.setdefault(place, Given(place[1], f"${variable}"))
            given[(*place, setting)] = Given(environment[variable], f"${variable}", is_text=True)


def _new_names(table: Table, names: Iterable[str], ours: Iterable[str]) -> set[str]:
    """Names that the environment alone gives: those for which it has what must be given."""
    old = {in_variable(name) for name in names}
    ends = [f"_{key.upper()}" for key, one in table.settings.items() if one.is_required]
    found = {rest.removesuffix(end) for rest in ours for end in ends if rest.endswith(end) and rest != end}
    return {name.lower().replace("_", "-") for name in found if name not in old}


def _strange(variable: str, table: Table) -> Mistake:
    known = {one for setting in table.settings.values() for one in variables_of(setting) if one.startswith(PREFIX)}
    return Mistake(f"${variable}", "no setting is called so", meant(variable, known, "variables"))
