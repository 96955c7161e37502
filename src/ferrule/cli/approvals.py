"""`ferrule approvals`: which calls wait for a person, what exactly each would do, and saying yes or no."""

from __future__ import annotations

import getpass
import time
from argparse import ArgumentParser, Namespace
from dataclasses import asdict

from ferrule.cli import json_view, streams
from ferrule.cli.command import Command
from ferrule.cli.ledger_option import add_ledger_option, moment, on_ledger
from ferrule.cli.terminal import seen
from ferrule.core.json_text import loads
from ferrule.core.visible_text import exactly, shortly
from ferrule.errors import DefinitionError, LedgerError
from ferrule.run.ledger.claim import canonical_bytes
from ferrule.run.ledger.ledger import Approval, ApprovalState, Ledger


def _add_options(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    listed = actions.add_parser("list", help="those that wait, oldest first")
    listed.add_argument("--all", action="store_true", help="also those that were decided on or ran out")
    listed.set_defaults(act=_list)
    shown = actions.add_parser("show", help="one, in full")
    shown.set_defaults(act=_show)
    approved = actions.add_parser("approve", help="allow exactly this call, once")
    approved.add_argument(
        "--arguments", default="", metavar="JSON", help="allow it with these arguments instead; they are checked again"
    )
    approved.set_defaults(act=_approve)
    denied = actions.add_parser("deny", help="do not allow it; the model is told")
    denied.add_argument("--why", default="", metavar="TEXT", help="what the model is told")
    denied.set_defaults(act=_deny)
    for one in (shown, approved, denied):
        one.add_argument("id", metavar="ID", help="as `list` gives it")
    for one in (approved, denied):
        one.add_argument("--by", default="", metavar="NAME", help="who decides (default: who is logged in)")
    for one in (listed, shown):
        one.add_argument("--json", action="store_true", help="print JSON")
    for one in (listed, shown, approved, denied):
        add_ledger_option(one)


def _run(arguments: Namespace) -> None:
    arguments.act(arguments)


def _list(arguments: Namespace) -> None:
    now = time.time()
    state = None if arguments.all else ApprovalState.PENDING
    found = on_ledger(arguments.ledger, lambda ledger: ledger.approvals(state))
    shown = [one for one in found if arguments.all or one.expires_at > now]
    if arguments.json:
        streams.write(json_view.page([_as_dict(one) for one in shown]) + "\n")
    else:
        streams.write("".join(_line(one, now) for one in shown) or "nothing waits\n")


def _show(arguments: Namespace) -> None:
    async def found(ledger: Ledger) -> Approval:
        one = await ledger.approval(arguments.id)
        if one is None:
            raise LedgerError(
                "there is no such approval", code="approval_unknown", hint="See `ferrule approvals list`."
            )
        return one

    one = on_ledger(arguments.ledger, found)
    streams.write(json_view.page(_as_dict(one)) + "\n" if arguments.json else _page(one, time.time()))


def _approve(arguments: Namespace) -> None:
    by = arguments.by or _logged_in()
    instead = _canonical(arguments.arguments) if arguments.arguments else None
    given = on_ledger(arguments.ledger, lambda ledger: ledger.approve(arguments.id, by, instead, now=time.time()))
    streams.write(f"approved:\n{_page(given, time.time())}")


def _deny(arguments: Namespace) -> None:
    by = arguments.by or _logged_in()
    given = on_ledger(arguments.ledger, lambda ledger: ledger.deny(arguments.id, by, arguments.why, now=time.time()))
    streams.write(f"denied:\n{_page(given, time.time())}")


def _canonical(text: str) -> bytes:
    try:
        return canonical_bytes(loads(text))
    except ValueError as fault:
        raise DefinitionError(f"the arguments are not JSON: {fault}", hint="Write them as `show` does.") from None


def _logged_in() -> str:
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        # A container may run under a number that has no name.
        raise DefinitionError("nobody is logged in by name", hint="Say who decides with --by.") from None


def _line(one: Approval, now: float) -> str:
    return f"{one.id}  {_state(one, now)}  {seen(one.tool)}  {shortly(one.arguments)}\n"


def _page(one: Approval, now: float) -> str:
    """Every line but the last is the ledger's own; what the model chose comes last, whole and with its hash."""
    decided = "" if one.decided_at is None else f"{seen(one.decided_by)}, {moment(one.decided_at)}"
    lines = {
        "id": one.id,
        "state": _state(one, now),
        "tool": f"{seen(one.tool)} (definition {one.tool_fingerprint})",
        "for": f"{seen(one.principal)} of {seen(one.tenant)}",
        "conversation": seen(one.conversation),
        "call": seen(one.call_id),
        "asked": moment(one.requested_at),
        "runs out": moment(one.expires_at),
        "decided by": decided,
        "why": exactly(one.why.encode("utf-8", "surrogatepass")),
        "sha256": f"{one.arguments_sha256} of {len(one.arguments)} bytes",
        "arguments": exactly(one.arguments),
    }
    return "".join(f"{name + ':':<13} {text}\n" for name, text in lines.items() if text)


def _state(one: Approval, now: float) -> str:
    is_open = one.state in (ApprovalState.PENDING, ApprovalState.APPROVED)
    return f"{one.state.value}, ran out" if is_open and one.expires_at <= now else one.state.value


def _as_dict(one: Approval) -> dict[str, object]:
    # The text of the arguments and not their values: it is what was hashed.
    return {**asdict(one), "state": one.state.value, "arguments": one.arguments.decode("utf-8", "backslashreplace")}


COMMAND = Command(
    name="approvals",
    about="List, show and decide on calls that wait for leave.",
    more="What is shown is drawn from the very bytes that will run, with hidden characters spelled out.\n"
    "An approval is for one call with these arguments, for one use, until it runs out.",
    examples="  ferrule approvals list --ledger ledger.db\n  ferrule approvals show ID --ledger ledger.db\n"
    "  ferrule approvals approve ID --ledger postgresql://ann@db/ferrule\n"
    """  ferrule approvals approve ID --arguments '{"amount": 2}' --ledger ledger.db\n"""
    '  ferrule approvals deny ID --why "not before Monday" --ledger ledger.db',
    add_options=_add_options,
    run=_run,
)
