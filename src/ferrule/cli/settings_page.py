"""The page of settings: `docs/reference/settings.md` is this and nothing else. Made from the classes."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from ferrule.cli.serve_flags import PLACES
from ferrule.server.config.config import Config
from ferrule.server.config.tables import PREFIX, TABLES, Setting, Table, variables_of

_HEAD = """# Settings

Made from the classes in `src/ferrule/server/config/config.py` by `ferrule config settings`; a test keeps it true.

A setting is given by a flag of `ferrule serve`, by a variable of the environment, or in `ferrule.toml` (in the folder
where the gateway is started, or `--config FILE`). A flag counts before a variable, a variable before the file, the file
before the default. `ferrule config check` reads all of it, and says what would be served, what is wrong, where, and
what to do.

- A variable is called `FERRULE_TABLE_SETTING`, in capitals, and `FERRULE_TABLE_NAME_SETTING` where there is a table for
  each name: in a name, whatever is no letter or digit is `_`. `FERRULE_ENGINES_SMOL_USE` sets `use` of the engine
  `smol`, and makes that engine if there is none.
- A list in a variable is joined by commas, or is a JSON list: `a,b` or `["a", "b"]`.
- `${NAME}` in a text of the file is filled in from the environment, `${NAME:-default}` where it may be missing; `$${`
  is a plain `${`.
- Paths are seen from where the gateway is started.
- A setting, table or variable that is not known is an error, and so is a value of another kind.
"""
_ROW_HEAD = "| setting | kind | default | also given by | what it is |\n| --- | --- | --- | --- | --- |\n"
_TITLES = {"engines": "[engines.NAME]", "models": "[models.NAME]", "keys": "[[keys]]"}
_MORE = {
    "engines": "Options of the engine may stand beside `use`, as `key` and `url` here; any character goes through.\n\n"
    '```toml\n[engines.big]\nuse = "openai:gpt-x"\nurl = "https://api.example.com/v1"\nkey = "${EXAMPLE_KEY}"\n```\n',
    "models": "An engine that no model names is a model by its own name.\n\n"
    '```toml\n[models.smol]\nengines = ["here", "there"]\n```\n',
    "keys": "Each has a `name`. `ferrule keys new NAME` prints a new key, and these lines for it.\n",
    "tools": "The variables are also read without `FERRULE_`.\n",
}


def settings_page() -> str:
    return _HEAD + "".join(map(_section, TABLES.values()))


def abouts(owner: type[Any]) -> dict[str, str]:
    """The sentence under each field of a class. Python itself does not keep them."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    found: dict[str, str] = {}
    for field, after in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            found[field.target.id] = " ".join(text.split()) if isinstance(text, str) else ""
    return found


def _section(table: Table) -> str:
    about = " ".join((inspect.getdoc(table.make) or "").split("\n\n")[0].split())
    told = {**abouts(Config), **abouts(table.make)}
    rows = "".join(_row(table, one, told.get(one.name, "")) for one in table.settings.values())
    more = f"\n{_MORE[table.name]}" if table.name in _MORE else ""
    title = _TITLES.get(table.name, f"[{table.name}]")
    return f"\n## {title}\n\n{about}\n\n{_ROW_HEAD}{rows}{more}"


def _row(table: Table, setting: Setting, about: str) -> str:
    default = "" if setting.is_required else f"`{_toml(setting.default)}`"
    also = ", ".join(f"`{one}`" for one in _also(table, setting))
    cells = (f"`{setting.name}`", setting.kind.words, default or "must be given", also, about)
    return "| " + " | ".join(cell.replace("|", "\\|").replace("<", "&lt;") for cell in cells) + " |\n"


def _also(table: Table, setting: Setting) -> Iterator[str]:
    if table.is_named:
        yield f"{PREFIX}{table.name.upper()}_NAME_{setting.name.upper()}"
    else:
        yield variables_of(setting)[0]
    for option, place in PLACES.items():
        if place == (table.name, setting.name):
            yield f"--{option.replace('_', '-')}"


def _toml(value: object) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value)  # pyright: ignore[reportUnknownArgumentType]  # texts
