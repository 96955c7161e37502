"""`ferrule keys`: a new key to the gateway, shown once, and the lines that let it in. Writes no file."""

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
    """256 bits that nobody can guess. The prefix is for programs that look for keys where none should be."""
    return PREFIX + secrets.token_urlsafe(_BYTES)


def hash_of(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def lines_of(key: KeyConfig) -> str:
    """The table of a key for ferrule.toml; what is as it is by default is left out."""
    usual = {one.name: one.default for one in fields(KeyConfig)}
    kept = {one.name: getattr(key, one.name) for one in fields(KeyConfig)}
    lines = [f"{name} = {_spelled(name, value)}\n" for name, value in kept.items() if value != usual[name]]
    return "[[keys]]\n" + "".join(lines)


def _add_options(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    new = actions.add_parser("new", help="make a key: it goes to stderr, its lines for ferrule.toml to stdout")
    new.add_argument("name", metavar="NAME", type=_plain, help="who holds it; names him in logs and in the ledger")
    new.add_argument("--tenant", default="local", type=_plain, help="whose data and tools (default: %(default)s)")
    new.add_argument("--models", nargs="*", default=["*"], type=_plain, metavar="MODEL", help="(default: all)")
    new.add_argument(
        "--tools",
        nargs="*",
        default=[],
        type=_plain,
        metavar="TOOL",
        help="the gateway's own; '*' is all (default: none)",
    )
    new.add_argument("--approve", action="store_true", help="may decide on calls that wait for leave")
    new.add_argument("--admin", action="store_true", help="may see how the gateway is doing")
    new.add_argument("--rate", type=int, default=0, metavar="N", help="requests a minute, at most")
    new.add_argument("--width", type=int, default=0, metavar="N", help="answers at once, at most")
    new.set_defaults(act=_new)


def _run(arguments: Namespace) -> None:
    arguments.act(arguments)


def _new(arguments: Namespace) -> None:
    if arguments.rate < 0 or arguments.width < 0:
        raise DefinitionError("a limit is 0 or more", hint="Leave it out for none.")
    key = new_key()
    held = KeyConfig(
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
    # Two streams, so that `>> ferrule.toml` keeps the lines and never the key.
    print(f"the key of {held.name}, shown this once:\n{key}", file=sys.stderr)
    streams.write(lines_of(held))


def _plain(text: str) -> str:
    if not text or not text.isprintable():
        raise ArgumentTypeError(f"{text!r} is empty or holds what cannot be printed")
    return text


def _spelled(setting: str, value: object) -> str:
    # What looks like a variable is doubled, so that it is read back as it is; in a name nothing is filled in.
    return _toml(value) if setting == "name" else _toml(value).replace("${", "$${")


def _toml(value: object) -> str:
    listed = list(value) if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # texts
    # JSON of printable texts, small numbers and lists of them is TOML too.
    return json.dumps(listed, ensure_ascii=False)


COMMAND = Command(
    name="keys",
    about="Make a key to the gateway.",
    more="The key is shown once and kept nowhere; the gateway knows it by its hash.",
    examples="  ferrule keys new alice >> ferrule.toml\n"
    "  ferrule keys new ci --models smol --tools get_weather --rate 60",
    add_options=_add_options,
    run=_run,
)
