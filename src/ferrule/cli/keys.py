"""`ferrule keys`: generates an API key for the gateway and prints its configuration. It writes no file."""

from __future__ import annotations

import hashlib
import json
import secrets
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from dataclasses import fields

from ferrule.cli import streams
from ferrule.cli.command import Command
from ferrule.errors import DefinitionError
from ferrule.server.config.config import KeyConfig

PREFIX = "fk_"
_BYTES = 32


def new_key() -> str:
    """A random key of 256 bits. The prefix helps secret scanners to find leaked keys."""
    return PREFIX + secrets.token_urlsafe(_BYTES)


def hash_of(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def lines_of(key: KeyConfig) -> str:
    """The table of a key for ferrule.toml, without settings that have their default value."""
    defaults = {setting.name: setting.default for setting in fields(KeyConfig)}
    values = {setting.name: getattr(key, setting.name) for setting in fields(KeyConfig)}
    lines = [f"{name} = {_setting_text(name, value)}\n" for name, value in values.items() if value != defaults[name]]
    return "[[keys]]\n" + "".join(lines)


def _add_options(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    new = actions.add_parser(
        "new", help="generate a key: prints it on stderr, and its lines for ferrule.toml on stdout"
    )
    new.add_argument("name", metavar="NAME", type=_plain, help="the name of the key in logs and in the ledger")
    new.add_argument("--tenant", default="local", type=_plain, help="the tenant (default: %(default)s)")
    new.add_argument(
        "--models",
        nargs="*",
        default=["*"],
        type=_plain,
        metavar="MODEL",
        help="models that it may use (default: all)",
    )
    new.add_argument(
        "--tools",
        nargs="*",
        default=[],
        type=_plain,
        metavar="TOOL",
        help="the gateway's tools that it may use; '*' is all (default: none)",
    )
    new.add_argument("--approve", action="store_true", help="may decide on approvals")
    new.add_argument("--admin", action="store_true", help="may see the gateway's status and metrics")
    new.add_argument("--rate", type=int, default=0, metavar="N", help="maximum requests per minute")
    new.add_argument("--width", type=int, default=0, metavar="N", help="maximum concurrent answers")
    new.set_defaults(act=_new)


def _run(arguments: Namespace) -> None:
    arguments.act(arguments)


def _new(arguments: Namespace) -> None:
    if arguments.rate < 0 or arguments.width < 0:
        raise DefinitionError("--rate and --width must be 0 or more", hint="Leave them out for no limit.")
    key = new_key()
    config = KeyConfig(
        name=arguments.name,
        sha256=hash_of(key),
        tenant=arguments.tenant,
        models=tuple(arguments.models),
        tools=tuple(arguments.tools),
        approve=arguments.approve,
        admin=arguments.admin,
        rate=arguments.rate,
        width=arguments.width,
    )
    # Two streams, so that `>> ferrule.toml` saves the lines and never the key.
    print(f"the key of {config.name}, shown only once:\n{key}", file=sys.stderr)
    streams.write(lines_of(config))


def _plain(text: str) -> str:
    if not text or not text.isprintable():
        raise ArgumentTypeError(f"{text!r} is empty or contains unprintable characters")
    return text


def _setting_text(setting: str, value: object) -> str:
    # Escape what looks like a variable. Names are not expanded, so they need no escape.
    return _toml(value) if setting == "name" else _toml(value).replace("${", "$${")


def _toml(value: object) -> str:
    plain = list(value) if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # texts
    # JSON of printable strings, small numbers and lists of them is also TOML.
    return json.dumps(plain, ensure_ascii=False)


COMMAND = Command(
    name="keys",
    about="Generate an API key for the gateway.",
    more="The key is shown once and stored nowhere; the gateway stores only its hash.",
    examples="  ferrule keys new alice >> ferrule.toml\n"
    "  ferrule keys new ci --models smol --tools get_weather --rate 60",
    add_options=_add_options,
    run=_run,
)
