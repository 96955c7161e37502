"""The client that the MCP conformance suite runs: our own source lists its tools and calls each of them once.

The suite passes the URL as the last argument; if it expects particular calls, it names them in the environment.
"""

import asyncio
import atexit
import http.client
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from ferrule.core.context import CallContext
from ferrule.core.tool import ToolDefinition
from ferrule.sources.mcp.config import HttpTransport, IdentityProvider, OAuthClient, Server
from ferrule.sources.mcp.credentials import MemoryCredentials
from ferrule.sources.mcp.elicitation import ElicitAnswer, Elicitation
from ferrule.sources.mcp.login import Person, Redirect
from ferrule.sources.mcp.servers import McpServers

_NAME = "suite"
# The suite gives a client thirty seconds. There is only one server, so it is worth waiting for.
_PATIENCE = 25.0
_METADATA_URL = "https://conformance-test.local/client-metadata.json"
"""The client metadata document that the suite knows."""


async def _accept(elicitation: Elicitation) -> ElicitAnswer:
    """Accept every form unchanged: the suite checks its defaults."""
    return ElicitAnswer("accept")


def calls_for(tools: tuple[ToolDefinition, ...], context: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The calls that the suite expects, or one call of each tool with arguments of the right types."""
    calls = [(f"{_NAME}_{call['name']}", call["arguments"]) for call in context.get("toolCalls", ())]
    return calls or [(tool.name, _arguments(tool, tools[0])) for tool in tools]


def _arguments(tool: ToolDefinition, first: ToolDefinition) -> dict[str, Any]:
    # The one tool with an object parameter expects the schema of the first tool, as it was read.
    values: dict[str, Any] = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": first.parameters}
    properties = cast("Mapping[str, dict[str, Any]]", tool.properties)
    return {name: values.get(schema.get("type", ""), "text") for name, schema in properties.items()}


def _person() -> Person:
    """Somebody who follows every address at once: the suite's authorization servers redirect without a question."""
    redirects: asyncio.Queue[Redirect] = asyncio.Queue()

    async def show(address: str) -> None:
        location = await asyncio.to_thread(_location_of, address)
        fields = {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}
        redirects.put_nowait(Redirect(fields.get("code", ""), fields.get("state"), fields.get("iss")))

    return Person("http://127.0.0.1:3030/callback", show, redirects.get)


def _location_of(address: str) -> str:
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}")
        return connection.getresponse().headers.get("location", "")
    finally:
        connection.close()


def _file_with(token: str) -> str:
    """The path of a file as the platform of a workload writes it. It is deleted at the end."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", delete=False) as file:
        file.write(token)
    atexit.register(os.unlink, file.name)
    return file.name


def _client_of(context: Mapping[str, Any]) -> OAuthClient:
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    machine = "client-credentials" in scenario
    if "wif" in scenario:
        file = _file_with(context["valid_jwt"])
        return OAuthClient(context["client_id"], assertion_file=file, signs_in_itself=True, is_bearer=True)
    if "enterprise" in scenario:
        return OAuthClient(
            context["client_id"],
            context["client_secret"],
            assertion_file=_file_with(context["idp_id_token"]),
            signs_in_itself=True,
            is_bearer=True,
            identity_provider=IdentityProvider(context["idp_token_endpoint"], context["idp_client_id"]),
        )
    return OAuthClient(
        client_id=context.get("client_id", ""),
        client_secret=context.get("client_secret", ""),
        private_key=context.get("private_key_pem", ""),
        algorithm=context.get("signing_algorithm", "RS256"),
        metadata_url="" if machine else _METADATA_URL,
        signs_in_itself=machine,
    )


async def _run(url: str) -> None:
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    server = Server(_NAME, HttpTransport(url, oauth=_client_of(context)))
    person, credentials = _person(), MemoryCredentials()
    async with McpServers(
        [server], elicit=_accept, settle_seconds=_PATIENCE, credentials=credentials, person=person
    ) as source:
        for name, arguments in calls_for(await source.tools(), context):
            outcome = await source.call(name, arguments, CallContext(call_id="conformance"))
            print(f"{name}: {outcome!r:.300}")
        print(*source.notices, sep="\n")


if __name__ == "__main__":
    asyncio.run(_run(sys.argv[-1]))
