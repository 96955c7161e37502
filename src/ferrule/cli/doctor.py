"""`ferrule doctor`: tests which options an endpoint honours, and says how Ferrule handles the rest.

With --ledger it examines the database of a ledger instead.
"""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from dataclasses import asdict, replace

from ferrule.cli import json_view, streams, terminal
from ferrule.cli.command import Command
from ferrule.cli.doctor_engine import endpoint_hint, examine_engine, url_in
from ferrule.cli.doctor_ledger import FAILED, OK, LedgerFinding, examine_ledger
from ferrule.dialects.lenient_json import entries, mapping, text
from ferrule.engines.doctor import TOOLS, TOTAL, examine
from ferrule.engines.http import Deadlines, HttpClient
from ferrule.engines.profile import Finding, Profile, Verdict, endpoint, honoured_choices, save_profile
from ferrule.errors import DefinitionError, EngineError, LedgerError
from ferrule.run.ledger.address import CONNECTIONS
from ferrule.server.secret_mask import mask_text

_CHECKED = "every call is validated against the whole schema; an invalid call is generated again or rejected"
# By the name of the probe, or by the part before its colon.
ADVICE = {
    "tools accepted": "start the server with its tool calling (vLLM: --enable-auto-tool-choice --tool-call-parser "
    "NAME; llama-server: --jinja), or use the engine vllm:URL, sglang:URL or llama-server:URL, which writes the prompt "
    "and reads the calls itself",
    "calls": "calls are returned if the model makes them; a larger model makes more",
    "calls are read": "calls in another spelling are read from the text; the receipt has `drifted`",
    "required": "tool_choice 'required' is refused before it is sent; an engine with a grammar (llama-server, vllm, "
    "sglang) can enforce it",
    "named": "only that tool is offered and a call is required, which needs 'required' to be honoured",
    "allowed": "only the allowed tools are offered",
    "none": "no tools are offered",
    "parallel off": "calls after the first are dropped",
    "schema": _CHECKED,
    "strict": _CHECKED,
    "stream: argument deltas": "nothing is lost, but arguments arrive late",
    "stream: same as whole": "you can disable streaming for the engine (is_streamed=false)",
    "stream: ids": "a missing id is generated, and the first id of a call counts",
    "stream: usage": "the reply has no count of tokens",
    "finish reason": "the finish reason is derived from the calls, not taken from the engine",
    "answer schema": "the answer is validated, and a diagnostic reports what does not match",
    "answer schema beside tools": "the answer is validated, and a diagnostic reports what does not match",
    "call beside an answer schema": "request calls and a structured answer in separate requests",
    "bad schema refused": "every schema is validated before it is sent",
}


def advice_on(profile: Profile) -> list[str]:
    """One line for each piece of advice, with its options; at the end the choices that can be relied on."""
    by_advice: dict[str, list[Finding]] = {}
    for finding in profile.findings:
        if finding.verdict is not Verdict.HONOURED:
            by_advice.setdefault(_advice(finding.name), []).append(finding)
    lines = [
        f"{_names_of(findings)} {'are' if len(findings) > 1 else 'is'} not reliably honoured: {advice}."
        for advice, findings in by_advice.items()
    ]
    choices = honoured_choices(profile)
    if any(finding.name == TOOLS for finding in profile.findings):
        choices -= {"auto"}
    closing = [f"Reliable choices: honours={','.join(sorted(choices))}" if choices else "No tool choice is reliable."]
    if profile.continuation_cost is not None:
        closing.append(
            f"One more request on a text that was just read costs as much as {profile.continuation_cost:.1f} tokens."
        )
    return [*(lines or ["All tested options are honoured."]), *closing]


def _advice(name: str) -> str:
    return ADVICE.get(name) or ADVICE[name.partition(":")[0]]


def _names_of(findings: list[Finding]) -> str:
    return ", ".join(f"{finding.name} ({finding.verdict.value})" for finding in findings)


_HEADINGS = ("probe", "verdict", "evidence")
_DEADLINES = Deadlines(first=180, between=60, total=300)


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "target",
        metavar="ENGINE_OR_URL",
        nargs="?",
        help="an engine such as llama:MODEL.gguf or vllm:URL, or the base URL of an endpoint with OpenAI's chat API",
    )
    parser.add_argument(
        "--ledger",
        action="append",
        metavar="PATH_OR_DSN",
        help="examine this ledger instead: a SQLite file, or postgresql://...; may be given several times",
    )
    parser.add_argument(
        "--processes",
        type=_count_of("processes"),
        default=4,
        metavar="N",
        help="how many processes use the ledger (default: 4, or as many as are connected)",
    )
    parser.add_argument(
        "--connections",
        type=_count_of("connections"),
        default=CONNECTIONS,
        metavar="N",
        help=f"their setting ledger_connections (default: {CONNECTIONS})",
    )
    parser.add_argument("--model", metavar="NAME", help="the model to test (default: the first that is listed)")
    parser.add_argument("--key-env", metavar="NAME", help="the environment variable that contains the API key")
    parser.add_argument(
        "--runs", type=_count_of("runs"), default=3, metavar="N", help="run each probe N times (default: 3)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--no-save", action="store_true", help="do not save the profile for later use by engines")


def _count_of(things: str) -> Callable[[str], int]:
    """Return a reader of a number of things, at least one."""

    def read(value: str) -> int:
        if not value.isdecimal() or int(value) < 1:
            raise ArgumentTypeError(f"{value!r} is not a number of {things}")
        return int(value)

    return read


def _run(arguments: Namespace) -> None:
    if arguments.ledger is not None:
        if arguments.target is not None:
            raise DefinitionError("give an engine, a URL or --ledger, not both", hint="Run the command twice.")
        _run_on_ledger(arguments.ledger, arguments.processes, arguments.connections, as_json=arguments.json)
        return
    if arguments.target is None:
        raise DefinitionError(
            "there is nothing to test",
            hint="Give an engine such as llama:MODEL.gguf, the URL of an endpoint, or --ledger PATH_OR_DSN.",
        )
    url = url_in(arguments.target)
    if not url:
        if not show_engine(arguments.target, as_json=arguments.json):
            raise SystemExit(1)
        return
    headers = _headers(arguments.key_env)
    with terminal.progress("asking", TOTAL) as advance:
        profile = asyncio.run(_examine(url, arguments.model, headers, arguments.runs, advance))
    saved = None if arguments.no_save else save_profile(profile)
    if arguments.json:
        streams.write(json_view.page(profile.as_dict()) + "\n")
        return
    rows = [(finding.name, finding.verdict.value, finding.evidence) for finding in profile.findings]
    closing = [*advice_on(profile), *([f"Saved in {saved}"] if saved else [])]
    _show(rows, closing)


def _run_on_ledger(addresses: list[str], processes: int, connections: int, *, as_json: bool) -> None:
    findings = [
        replace(one, name=one.name if len(addresses) == 1 else f"{number}: {one.name}")
        for number, address in enumerate(addresses, 1)
        for one in _examine_database(address, processes, connections, is_alone=len(addresses) == 1)
    ]
    warnings = [f"{one.name} ({one.evidence}): {one.advice}." for one in findings if one.verdict != OK]
    if as_json:
        streams.write(json_view.page({"findings": [asdict(one) for one in findings]}) + "\n")
    else:
        _show([(one.name, one.verdict, one.evidence) for one in findings], warnings or ["Nothing to change."])
    if any(one.verdict == FAILED for one in findings):
        raise SystemExit(1)


def show_engine(name: str, *, as_json: bool = False) -> bool:
    """Test an engine and print what each step showed. True if all work."""
    findings = examine_engine(name)
    if as_json:
        streams.write(json_view.page({"findings": [asdict(one) for one in findings]}) + "\n")
    else:
        advice = [f"{one.name} failed: {one.advice}." for one in findings if one.advice]
        hint = endpoint_hint(name)
        closing = [*(advice or ["Nothing to change."]), *([hint] if hint else [])]
        _show([(one.name, one.verdict, one.evidence) for one in findings], closing)
    return all(one.verdict != FAILED for one in findings)


def _examine_database(address: str, processes: int, connections: int, *, is_alone: bool) -> list[LedgerFinding]:
    try:
        return examine_ledger(address, processes, connections)
    except LedgerError as error:
        if is_alone:
            raise
        # The others are examined too.
        return [LedgerFinding("answers", FAILED, mask_text(error.message), error.hint.rstrip("."))]


def _show(rows: list[tuple[str, str, str]], closing: list[str]) -> None:
    if sys.stdout.isatty():
        terminal.show_table(_HEADINGS, rows)
        terminal.show_lines(closing)
        return
    streams.write("".join("\t".join(" ".join(cell.split()) for cell in row) + "\n" for row in (_HEADINGS, *rows)))
    # On stderr, so that a program can read the table on stdout.
    print("\n".join(closing), file=sys.stderr)


def _headers(key_env: str | None) -> dict[str, str]:
    if key_env is None:
        return {}
    key = os.environ.get(key_env)
    if not key:
        raise DefinitionError(f"{key_env} is not set", code="missing_key", hint="Name the variable with the API key.")
    return {"Authorization": f"Bearer {key}"}


async def _examine(
    url: str, model: str | None, headers: dict[str, str], runs: int, advance: Callable[[str], None]
) -> Profile:
    http = HttpClient(endpoint(url), headers, _DEADLINES)

    def on_finding(finding: Finding) -> None:
        advance(finding.name)

    try:
        return await examine(http, model or await _first_model(http), runs=runs, advance=on_finding)
    finally:
        await http.close()


async def _first_model(http: HttpClient) -> str:
    models = entries(mapping(await http.get("/v1/models")).get("data"))
    name = text(models[0].get("id")) if models else ""
    if not name:
        raise EngineError(f"{http.base} lists no models", hint="Name one with --model.")
    return name


COMMAND = Command(
    name="doctor",
    about="Test an engine, an endpoint or a ledger's database.",
    more="An engine is loaded and asked for one answer and one call; a step that fails says what to change.\n"
    "\n"
    "With a URL the options of an endpoint are tested. Many servers silently ignore options that they\n"
    "accept. Each probe sends, several times, a prompt that pulls the model against an option. If the\n"
    "model would comply anyway, the verdict is unknown. The command sends 100 to 300 requests of at most\n"
    "96 tokens each. The profile is saved in the user's cache directory, for engines on that endpoint.\n"
    "\n"
    "With --ledger the command examines the database of a ledger instead, and only reads: whether it\n"
    "answers and with which version, whether commits survive a crash and a failover, how many\n"
    "connections it allows, and how far its clock is off. The exit status is 1 if the ledger cannot\n"
    "be used as it is.",
    examples="  ferrule doctor llama:SmolLM2-135M-Instruct.Q4_1.gguf\n"
    "  ferrule doctor http://127.0.0.1:8080\n"
    "  ferrule doctor https://example.com/v1 --model small --key-env MY_KEY --json\n"
    "  ferrule doctor --ledger postgresql://ferrule@db.example.com/ferrule --processes 12",
    add_options=_add_options,
    run=_run,
)
