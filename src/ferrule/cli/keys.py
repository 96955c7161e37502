"""`ferrule keys`: creates, lists, rotates and revokes keys in the ledger, and generates keys for ferrule.toml."""

from __future__ import annotations

import getpass
import json
import re
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from dataclasses import asdict, fields

from ferrule.cli import json_view, streams
from ferrule.cli.command import Command
from ferrule.cli.ledger_option import add_ledger_option, moment, on_ledger
from ferrule.core.visible_text import visible
from ferrule.errors import DefinitionError, LedgerError
from ferrule.run.ledger.keys import KeyPermissions, KeyRecord
from ferrule.run.ledger.ledger import MAX_PAGE, Ledger
from ferrule.server.auth.issued_keys import ACTIVE, hash_of, issue_key, key_view, new_key, status_of
from ferrule.server.config.config import KeyConfig

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_SOURCES = "sources whose tools it may use, as patterns (default: all)"


def lines_of(key: KeyConfig) -> str:
    """The table of a key for ferrule.toml, without settings that have their default value."""
    defaults = {setting.name: setting.default for setting in fields(KeyConfig)}
    values = {setting.name: getattr(key, setting.name) for setting in fields(KeyConfig)}
    lines = [f"{name} = {_setting_text(name, value)}\n" for name, value in values.items() if value != defaults[name]]
    return "[[keys]]\n" + "".join(lines)


def _add_options(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    create = actions.add_parser("create", help="create a key in the ledger: prints its facts, and the key on stderr")
    _add_permissions(create)
    create.add_argument("--sources", nargs="*", default=["*"], type=_plain, metavar="SOURCE", help=_SOURCES)
    create.add_argument("--expires", type=_duration, default=None, metavar="TIME", help="such as 30d, 12h or 90m")
    create.set_defaults(act=_create)
    rows = actions.add_parser("list", help="list the keys in the ledger, newest first")
    rows.add_argument("--all", action="store_true", help="also list those that were revoked or have expired")
    rows.add_argument("--tenant", default=None, help="only those of one tenant")
    rows.set_defaults(act=_list)
    rotate = actions.add_parser("rotate", help="create a key with the name and the permissions of another one")
    rotate.add_argument(
        "--overlap", type=_duration, default=0.0, metavar="TIME", help="how long the old key stays valid (default: 0s)"
    )
    rotate.add_argument("--expires", type=_duration, default=None, metavar="TIME", help="when the new key expires")
    rotate.set_defaults(act=_rotate)
    revoke = actions.add_parser("revoke", help="end a key now, and the answers that it reads")
    revoke.set_defaults(act=_revoke)
    for subparser in (rotate, revoke):
        subparser.add_argument("id", metavar="ID", help="as printed by `list`")
    for subparser in (create, rotate, revoke):
        subparser.add_argument("--by", default="", metavar="NAME", help="who does it (default: the current user)")
    for subparser in (create, rows, rotate, revoke):
        subparser.add_argument("--json", action="store_true", help="print JSON")
        add_ledger_option(subparser)
    new = actions.add_parser(
        "new", help="generate a key for ferrule.toml: prints it on stderr, and its lines for the file on stdout"
    )
    _add_permissions(new)
    new.set_defaults(act=_new, sources=["*"])


def _add_permissions(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", type=_plain, help="the name of the key in logs and in the ledger")
    parser.add_argument("--tenant", default="local", type=_plain, help="the tenant (default: %(default)s)")
    parser.add_argument(
        "--models",
        nargs="*",
        default=["*"],
        type=_plain,
        metavar="MODEL",
        help="models that it may use, as patterns such as smol* (default: all)",
    )
    parser.add_argument(
        "--tools",
        nargs="*",
        default=[],
        type=_plain,
        metavar="TOOL",
        help="the gateway's tools that it may use, as patterns; '*' is all (default: none)",
    )
    parser.add_argument("--approve", action="store_true", help="may decide on approvals")
    parser.add_argument("--admin", action="store_true", help="may see all of its tenant, and manage its tenant's keys")
    parser.add_argument(
        "--operator", action="store_true", help="may see metrics and errors of the whole gateway, and reload it"
    )
    parser.add_argument("--rate", type=int, default=0, metavar="N", help="maximum requests per minute")
    parser.add_argument("--width", type=int, default=0, metavar="N", help="maximum concurrent answers")


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
        **asdict(_permissions(arguments)),
    )
    # Two streams, so that `>> ferrule.toml` saves the lines and never the key.
    print(f"the key of {config.name}, shown only once:\n{key}", file=sys.stderr)
    streams.write(lines_of(config))


def _permissions(arguments: Namespace) -> KeyPermissions:
    return KeyPermissions(
        models=tuple(arguments.models),
        tools=tuple(arguments.tools),
        sources=tuple(arguments.sources),
        approve=arguments.approve,
        admin=arguments.admin,
        operator=arguments.operator,
        rate=arguments.rate,
        width=arguments.width,
    )


def _create(arguments: Namespace) -> None:
    now = time.time()
    text, record = issue_key(
        arguments.name,
        arguments.tenant,
        _permissions(arguments),
        by=_person(arguments),
        expires_at=None if arguments.expires is None else now + arguments.expires,
        now=now,
    )
    on_ledger(arguments.ledger, lambda ledger: ledger.add_key(record))
    _print_issued(arguments, text, record, now)


def _rotate(arguments: Namespace) -> None:
    now = time.time()

    async def rotate(ledger: Ledger) -> tuple[str, KeyRecord]:
        old = await ledger.key(arguments.id)
        if old is None:
            raise _unknown()
        expires_at = None if arguments.expires is None else now + arguments.expires
        text, new = issue_key(
            old.name, old.tenant, old.permissions, by=_person(arguments), expires_at=expires_at, now=now
        )
        added = await ledger.rotate_key(old.id, new, expires_at=now + arguments.overlap, now=now)
        if added is None:
            raise LedgerError(
                "the key has ended, or was rotated before", code="key_ended", hint="Rotate the key that replaced it."
            )
        return text, added

    text, record = on_ledger(arguments.ledger, rotate)
    _print_issued(arguments, text, record, now)


def _revoke(arguments: Namespace) -> None:
    now = time.time()

    async def revoke(ledger: Ledger) -> KeyRecord:
        revoked = await ledger.revoke_key(arguments.id, _person(arguments), now=now)
        if revoked is None:
            raise _unknown()
        return revoked

    revoked = on_ledger(arguments.ledger, revoke)
    streams.write(json_view.page(key_view(revoked, now)) + "\n" if arguments.json else _line(revoked, now))


def _list(arguments: Namespace) -> None:
    now = time.time()

    async def find(ledger: Ledger) -> list[KeyRecord]:
        found: list[KeyRecord] = []
        while True:
            page = await ledger.list_keys(arguments.tenant, after=found[-1].id if found else "")
            found += page
            if len(page) < MAX_PAGE:
                return found

    listed = [one for one in on_ledger(arguments.ledger, find) if arguments.all or status_of(one, now) == ACTIVE]
    if arguments.json:
        streams.write(json_view.page([key_view(one, now) for one in listed]) + "\n")
    else:
        streams.write("".join(_line(one, now) for one in listed) or "no keys\n")


def _print_issued(arguments: Namespace, text: str, record: KeyRecord, now: float) -> None:
    # Two streams, so that a script that keeps the facts does not keep the key.
    print(f"the key of {visible(record.name)}, shown only once:\n{text}", file=sys.stderr)
    streams.write(json_view.page(key_view(record, now)) + "\n" if arguments.json else _line(record, now))


def _line(record: KeyRecord, now: float) -> str:
    granted = record.permissions
    rights = [name for name in ("approve", "admin", "operator") if getattr(granted, name)]
    parts = [
        f"{record.id}  {status_of(record, now)}  {visible(record.name)} of {visible(record.tenant)}",
        f"models {visible(', '.join(granted.models)) or 'none'}",
        f"tools {visible(', '.join(granted.tools)) or 'none'}",
        *([] if granted.sources == ("*",) else [f"sources {visible(', '.join(granted.sources)) or 'none'}"]),
        *rights,
        *([f"expires {moment(record.expires_at)}"] if record.expires_at else []),
        *([f"revoked {moment(record.revoked_at)} by {visible(record.revoked_by)}"] if record.revoked_at else []),
        f"last used {moment(record.last_used_at)}" if record.last_used_at else "never used",
    ]
    return "; ".join(parts) + "\n"


def _person(arguments: Namespace) -> str:
    if arguments.by:
        return arguments.by
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        # A container may run under a user id without a name.
        return "operator"


def _unknown() -> LedgerError:
    return LedgerError("there is no such key", code="key_unknown", hint="Run `ferrule keys list` to see them.")


def _duration(text: str) -> float:
    match = re.fullmatch(r"(\d{1,9})([smhd])", text, re.ASCII)
    if match is None:
        raise ArgumentTypeError(f"{text!r} is not a time such as 30d, 12h, 90m or 45s")
    return float(match[1]) * _UNITS[match[2]]


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
    about="Create, list, rotate and revoke the API keys of gateways.",
    more="Keys in the ledger need no restart: every gateway on it knows a change within seconds.\n"
    "A key is shown once and stored nowhere; the ledger and ferrule.toml have only its hash.",
    examples="  ferrule keys create ci --tools 'get_*' --expires 90d --ledger ferrule.db\n"
    "  ferrule keys rotate key_1f0e... --overlap 1h --ledger ferrule.db\n"
    "  ferrule keys new alice >> ferrule.toml",
    add_options=_add_options,
    run=_run,
)
