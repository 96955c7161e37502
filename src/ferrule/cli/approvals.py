"""`ferrule approvals`: lists the calls that wait for approval, shows each in full, and approves or denies it."""

from __future__ import annotations

import getpass
import time
from argparse import ArgumentParser, Namespace
from dataclasses import asdict

from ferrule.cli import json_view, streams
from ferrule.cli.bench_options import at_least_one
from ferrule.cli.command import Command
from ferrule.cli.ledger_option import add_ledger_option, moment, on_ledger
from ferrule.core.json_text import loads
from ferrule.core.visible_text import visible, visible_excerpt, visible_text
from ferrule.errors import DefinitionError, LedgerError
from ferrule.run.ledger.claim import canonical_bytes
from ferrule.run.ledger.ledger import MAX_PAGE, Approval, ApprovalState, Ledger


def _add_options(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    list_parser = actions.add_parser("list", help="list pending approvals, oldest first")
    list_parser.add_argument("--all", action="store_true", help="also list decided and expired ones")
    list_parser.add_argument("--limit", type=at_least_one, default=0, metavar="N", help="list at most N (default: all)")
    list_parser.add_argument("--after", default="", metavar="ID", help="list those that were requested after this one")
    list_parser.set_defaults(act=_list)
    show_parser = actions.add_parser("show", help="show one in full")
    show_parser.set_defaults(act=_show)
    approve_parser = actions.add_parser("approve", help="approve exactly this call, once")
    approve_parser.add_argument(
        "--arguments",
        default="",
        metavar="JSON",
        help="approve it with these arguments instead; they are validated again",
    )
    approve_parser.set_defaults(act=_approve)
    deny_parser = actions.add_parser("deny", help="deny it; the model sees the denial")
    deny_parser.add_argument("--why", default="", metavar="TEXT", help="the reason that the model sees")
    deny_parser.set_defaults(act=_deny)
    for subparser in (show_parser, approve_parser, deny_parser):
        subparser.add_argument("id", metavar="ID", help="as printed by `list`")
    for subparser in (approve_parser, deny_parser):
        subparser.add_argument("--by", default="", metavar="NAME", help="who decides (default: the current user)")
    for subparser in (list_parser, show_parser):
        subparser.add_argument("--json", action="store_true", help="print JSON")
    for subparser in (list_parser, show_parser, approve_parser, deny_parser):
        add_ledger_option(subparser)


def _run(arguments: Namespace) -> None:
    arguments.act(arguments)


def _list(arguments: Namespace) -> None:
    now = time.time()
    listed = on_ledger(arguments.ledger, lambda ledger: _find(ledger, arguments, now))
    if arguments.json:
        streams.write(json_view.page([_as_dict(approval) for approval in listed]) + "\n")
    else:
        streams.write("".join(_line(approval, now) for approval in listed) or "no pending approvals\n")


async def _find(ledger: Ledger, arguments: Namespace, now: float) -> list[Approval]:
    """Read the list a page at a time, until it ends or has as many as are wanted."""
    state = None if arguments.all else ApprovalState.PENDING
    listed: list[Approval] = []
    after = arguments.after
    while arguments.limit == 0 or len(listed) < arguments.limit:
        page = await ledger.approvals(state, after=after)
        listed += [approval for approval in page if arguments.all or approval.expires_at > now]
        if len(page) < MAX_PAGE:
            break
        after = page[-1].id
    return listed[: arguments.limit] if arguments.limit else listed


def _show(arguments: Namespace) -> None:
    async def load(ledger: Ledger) -> Approval:
        approval = await ledger.approval(arguments.id)
        if approval is None:
            raise LedgerError(
                "unknown approval id", code="approval_unknown", hint="Run `ferrule approvals list` to see them."
            )
        return approval

    approval = on_ledger(arguments.ledger, load)
    streams.write(json_view.page(_as_dict(approval)) + "\n" if arguments.json else _page(approval, time.time()))


def _approve(arguments: Namespace) -> None:
    by = arguments.by or _current_user()
    arguments_instead = _canonical(arguments.arguments) if arguments.arguments else None
    approval = on_ledger(
        arguments.ledger, lambda ledger: ledger.approve(arguments.id, by, arguments_instead, now=time.time())
    )
    streams.write(f"approved:\n{_page(approval, time.time())}")


def _deny(arguments: Namespace) -> None:
    by = arguments.by or _current_user()
    approval = on_ledger(arguments.ledger, lambda ledger: ledger.deny(arguments.id, by, arguments.why, now=time.time()))
    streams.write(f"denied:\n{_page(approval, time.time())}")


def _canonical(text: str) -> bytes:
    try:
        return canonical_bytes(loads(text))
    except ValueError as fault:
        raise DefinitionError(
            f"the arguments are not JSON: {fault}", hint="Write them as `show` prints them."
        ) from None


def _current_user() -> str:
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        # A container may run under a user id without a name.
        raise DefinitionError("the current user has no name", hint="Name the person who decides with --by.") from None


def _line(approval: Approval, now: float) -> str:
    return f"{approval.id}  {_state(approval, now)}  {visible(approval.tool)}  {visible_excerpt(approval.arguments)}\n"


def _page(approval: Approval, now: float) -> str:
    """The approval in full. The arguments come last, because the model wrote them and they may imitate other lines."""
    decided = "" if approval.decided_at is None else f"{visible(approval.decided_by)}, {moment(approval.decided_at)}"
    lines = {
        "id": approval.id,
        "state": _state(approval, now),
        "tool": f"{visible(approval.tool)} (definition {approval.tool_fingerprint})",
        "for": f"{visible(approval.principal)} of {visible(approval.tenant)}",
        "conversation": visible(approval.conversation),
        "call": visible(approval.call_id),
        "requested": moment(approval.requested_at),
        "expires": moment(approval.expires_at),
        "decided by": decided,
        "why": visible(approval.why),
        "sha256": f"{approval.arguments_sha256} of {len(approval.arguments)} bytes",
        "arguments": visible_text(approval.arguments),
    }
    return "".join(f"{name + ':':<13} {text}\n" for name, text in lines.items() if text)


def _state(approval: Approval, now: float) -> str:
    is_open = approval.state in (ApprovalState.PENDING, ApprovalState.APPROVED)
    return f"{approval.state.value}, expired" if is_open and approval.expires_at <= now else approval.state.value


def _as_dict(approval: Approval) -> dict[str, object]:
    # The text of the arguments and not their parsed values, because the hash covers the text.
    return {
        **asdict(approval),
        "state": approval.state.value,
        "arguments": approval.arguments.decode("utf-8", "backslashreplace"),
    }


COMMAND = Command(
    name="approvals",
    about="List, show and decide on calls that wait for approval.",
    more="The arguments are shown from the exact bytes that will run, with hidden characters escaped.\n"
    "An approval is for one call with these arguments, for one use, until it expires.",
    examples="  ferrule approvals list --ledger ledger.db\n  ferrule approvals show ID --ledger ledger.db\n"
    "  ferrule approvals approve ID --ledger postgresql://ann@db/ferrule\n"
    """  ferrule approvals approve ID --arguments '{"amount": 2}' --ledger ledger.db\n"""
    '  ferrule approvals deny ID --why "not before Monday" --ledger ledger.db',
    add_options=_add_options,
    run=_run,
)
