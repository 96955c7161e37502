"""The settings as a Markdown page, which is `docs/reference/settings.md`. Generated from the classes."""

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

Generated from the classes in `src/ferrule/server/config/config.py` by `ferrule config settings`. A test keeps it up to
date.

You can set a setting with a flag of `ferrule serve`, with an environment variable, or in `ferrule.toml` (in the current
directory, or `--config FILE`). A flag overrides a variable, a variable overrides the file, and the file overrides the
default. `ferrule config check` reads all of them, shows what would be served, and reports each error with its location
and a fix.

- A variable is named `FERRULE_TABLE_SETTING`, in capitals. If a table has a name, it is
  `FERRULE_TABLE_NAME_SETTING`; characters in the name that are not letters or digits become `_`.
  `FERRULE_ENGINES_SMOL_USE` sets `use` of the engine `smol`, and creates that engine if it does not exist.
- A list in a variable is separated by commas, or is a JSON list: `a,b` or `["a", "b"]`.
- `${NAME}` in a string in the file is replaced by the environment variable; `${NAME:-default}` gives a default. Write
  `$${` for a literal `${`.
- Paths are relative to the directory where the gateway is started.
- Unknown settings, tables and variables are errors, and so are values of the wrong type.
"""
_ROW_HEAD = "| setting | type | default | also set by | description |\n| --- | --- | --- | --- | --- |\n"
_TITLES = {"engines": "[engines.NAME]", "models": "[models.NAME]", "keys": "[[keys]]"}
_MORE = {
    "engines": "Engine options can be separate settings, such as `key` and `url` here; they need no escaping.\n\n"
    '```toml\n[engines.big]\nuse = "openai:gpt-x"\nurl = "https://api.example.com/v1"\nkey = "${EXAMPLE_KEY}"\n```\n',
    "models": "An engine that no model names is served as a model under its own name.\n\n"
    '```toml\n[models.smol]\nengines = ["here", "there"]\n```\n',
    "keys": "Each key has a `name`. `ferrule keys new NAME` generates a key and prints these lines for it.\n",
    "tools": "The variables are also read without the prefix `FERRULE_`.\n",
}


def settings_page() -> str:
    return _HEAD + "".join(map(_section, TABLES.values()))


def abouts(owner: type[Any]) -> dict[str, str]:
    """The docstring under each field of a class, from the source, because Python does not keep them."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    texts: dict[str, str] = {}
    for field, after in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            texts[field.target.id] = " ".join(text.split()) if isinstance(text, str) else ""
    return texts


def _section(table: Table) -> str:
    about = " ".join((inspect.getdoc(table.config_class) or "").split("\n\n")[0].split())
    descriptions = {**abouts(Config), **abouts(table.config_class)}
    rows = "".join(_row(table, setting, descriptions.get(setting.name, "")) for setting in table.settings.values())
    more = f"\n{_MORE[table.name]}" if table.name in _MORE else ""
    title = _TITLES.get(table.name, f"[{table.name}]")
    return f"\n## {title}\n\n{about}\n\n{_ROW_HEAD}{rows}{more}"


def _row(table: Table, setting: Setting, about: str) -> str:
    default = "" if setting.is_required else f"`{_toml(setting.default)}`"
    also = ", ".join(f"`{entry}`" for entry in _also(table, setting))
    cells = (f"`{setting.name}`", setting.setting_type.description, default or "required", also, about)
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
