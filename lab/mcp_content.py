"""Record what engines and clients get of the content that MCP servers return: `scripts/long mcp-content`.

One gateway with two MCP servers: npm's server-everything, and a server of the tests, of which it reads a resource. Each
kind of content goes through all four APIs, with the vendors' SDKs and a WebSocket, to two engines on OpenAI's API that
keep the requests that they get: one takes images, the other takes text only.
"""

import asyncio
import base64
import json
import re
import subprocess
import tempfile
import urllib.request
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from rich.console import Console
from websockets.asyncio.client import connect

from ferrule.bench.tables import Table, markdown, print_table
from ferrule.sources.mcp.config import StdioTransport
from lab.environment import measured_environment
from lab.gateway_process import gateway_process
from lab.paths import CACHE
from lab.results_page import publish
from live.mcp_world import everything, own
from live.scripted_model import Said, ScriptedModel, scripted_model
from waiting import PATIENCE, eventually

_EVERYTHING: Final = CACHE / "mcp/node_modules/@modelcontextprotocol/server-everything/dist"
ANSWER: Final = "I have seen it."
SEEING: Final = "seeing"
BLIND: Final = "blind"
ENGINES: Final = {SEEING: "image", BLIND: "none"}
"""What each engine takes besides text."""
_COMMAND: Final = "```sh\nscripts/setup-mcp && scripts/setup-clients\nscripts/long mcp-content\n```"
_ABOUT: Final = (
    "A model calls a tool of an MCP server, and the gateway runs it; then, by API of the client, what is in the next "
    "request to the engine. *Client told*: the response has the header `ferrule-media`, over the WebSocket a "
    "diagnostic. A link is text: every engine gets it whole, and nothing is fetched. The first four are tools of "
    "server-everything, the last is a resource that was read with `read_resource`."
)


@dataclass(frozen=True, slots=True)
class Content:
    """One kind of content, and the call that returns it."""

    label: str
    tool: str
    arguments: dict[str, Any]

    @property
    def prompt(self) -> str:
        return f"Show me the {self.label}."


READING: Final = "own_read_resource"
CHART: Final = b"\x89PNG\r\n\x1a\n of a resource"
"""The resource that the tests' server has."""
CONTENTS: Final = (
    Content("image", "every_get-tiny-image", {}),
    Content("resource link", "every_get-resource-links", {"count": 2}),
    Content("embedded text", "every_get-resource-reference", {"resourceType": "Text", "resourceId": 2}),
    Content("embedded file", "every_get-resource-reference", {"resourceType": "Blob", "resourceId": 1}),
    Content("image of a resource", READING, {"uri": "chart://sales/one"}),
)


@dataclass(frozen=True, slots=True)
class Observation:
    """What became of one content: the messages that the engine got after the call, and what the client got."""

    api: str
    engine: str
    content: Content
    messages: list[dict[str, Any]]
    answer: str
    named: str
    """What the response says about content that the engine does not take; empty if it says nothing."""

    @property
    def images(self) -> list[str]:
        """The `data:` URLs of the images that the engine got."""
        contents: list[Any] = [one["content"] for one in self.messages]
        parts = [part for content in contents if isinstance(content, list) for part in cast("list[Any]", content)]
        return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]

    @property
    def result(self) -> str:
        """The text of the tool's result."""
        (message,) = (one for one in self.messages if one["role"] == "tool")
        if isinstance(message["content"], str):
            return message["content"]
        return "\n".join(part["text"] for part in message["content"] if part["type"] == "text")

    @property
    def links(self) -> list[dict[str, Any]]:
        """The resource links in the tool's result."""
        blocks: list[dict[str, Any]] = json.loads(self.result) if self.result.startswith("[{") else []
        return [block for block in blocks if block["type"] == "resource_link"]


def image_of(content: Content) -> bytes:
    """The image as it lies in the server: server-everything has it in its package."""
    if content.tool == READING:
        return CHART
    source = (_EVERYTHING / "tools/get-tiny-image.js").read_text(encoding="utf-8")
    (text,) = re.findall(r'MCP_TINY_IMAGE = "([^"]+)"', source)
    return base64.b64decode(text)


def _reply(messages: list[dict[str, Any]], names: list[str]) -> Said:
    if any(message["role"] == "tool" for message in messages):
        return Said(ANSWER)
    (content,) = (one for one in CONTENTS if one.prompt in json.dumps(messages))
    return Said(calls=[(content.tool, content.arguments)])


@dataclass(frozen=True, slots=True)
class ContentGateway:
    url: str
    model: ScriptedModel


@contextmanager
def content_gateway(folder: Path) -> Generator[ContentGateway]:
    """A gateway with both servers and both engines."""
    servers = {
        one.name: {"command": transport.command, "args": list(transport.args), "resources": one.name == "own"}
        for one in (everything(), own())
        if isinstance(transport := one.transport, StdioTransport)
    }
    config = folder / "mcp.json"
    config.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    with scripted_model(_reply) as model:
        engines = [f"--engine={name}=openai:{name}?url={model.url}&media={media}" for name, media in ENGINES.items()]
        arguments = (*engines, "--mcp-config", str(config), "--mcp-trusted")
        with gateway_process(arguments, engine=None) as gateway:
            # It serves while they start.
            eventually(lambda: {one.tool for one in CONTENTS} <= _tool_names(gateway.url))
            yield ContentGateway(gateway.url, model)


def _tool_names(url: str) -> set[str]:
    with urllib.request.urlopen(f"{url}/v1/tools?limit=1000", timeout=PATIENCE) as answer:
        return {tool["name"] for tool in json.load(answer)["data"]}


# Programs as a user writes them, with the SDK alone. Each prints the text and the header of every answer.
_PROGRAMS: Final = {
    "chat": """
import json, openai, sys
client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none")
for model, prompt, tool in json.loads(sys.argv[2]):
    answer = client.chat.completions.with_raw_response.create(
        model=model, messages=[{"role": "user", "content": prompt}], extra_body={"ferrule": {"tools": [tool]}})
    print(json.dumps([answer.parse().choices[0].message.content, answer.headers.get("ferrule-media", "")]))
""",
    "responses": """
import json, openai, sys
client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none")
for model, prompt, tool in json.loads(sys.argv[2]):
    server = {"type": "mcp", "server_label": "ferrule", "allowed_tools": [tool], "require_approval": "never"}
    answer = client.responses.with_raw_response.create(model=model, input=prompt, tools=[server])
    print(json.dumps([answer.parse().output_text, answer.headers.get("ferrule-media", "")]))
""",
    "messages": """
import anthropic, json, sys
client = anthropic.Anthropic(base_url=sys.argv[1], api_key="none")
for model, prompt, tool in json.loads(sys.argv[2]):
    answer = client.messages.with_raw_response.create(
        model=model, max_tokens=100, messages=[{"role": "user", "content": prompt}],
        extra_body={"ferrule": {"tools": [tool]}})
    text = "".join(block.text for block in answer.parse().content)
    print(json.dumps([text, answer.headers.get("ferrule-media", "")]))
""",
}
_VENVS: Final = {"chat": "client-openai", "responses": "client-openai", "messages": "client-anthropic"}
APIS: Final = (*_PROGRAMS, "websocket")


def observe(gateway: ContentGateway, api: str) -> list[Observation]:
    """Send every content to both engines through one API."""
    gateway.model.requests.clear()
    runs = [(engine, content) for content in CONTENTS for engine in ENGINES]
    questions = [(engine, content.prompt, content.tool) for engine, content in runs]
    if api == "websocket":
        answers = asyncio.run(_ask_over_websocket(gateway.url, questions))
    else:
        python = CACHE / "venvs" / _VENVS[api] / "bin" / "python"
        command = [str(python), "-c", _PROGRAMS[api], gateway.url, json.dumps(questions)]
        done = subprocess.run(command, check=False, capture_output=True, encoding="utf-8", timeout=PATIENCE)
        assert done.returncode == 0, done.stderr[-2000:]
        answers = [json.loads(line) for line in done.stdout.splitlines()]
    requests = gateway.model.requests
    # One with the call, one with its result.
    assert [one["model"] for one in requests] == [engine for engine, _ in runs for _ in range(2)]
    return [
        Observation(api, engine, content, request["messages"], text, named)
        for (engine, content), request, (text, named) in zip(runs, requests[1::2], answers, strict=True)
    ]


async def _ask_over_websocket(url: str, questions: Sequence[tuple[str, str, str]]) -> list[tuple[str, str]]:
    answers: list[tuple[str, str]] = []
    async with connect(url.replace("http", "ws", 1) + "/v1/stream", proxy=None) as connection:
        for model, prompt, tool in questions:
            messages = [{"role": "user", "content": prompt}]
            body = {"model": model, "messages": messages, "ferrule": {"tools": [tool]}}
            await connection.send(json.dumps({"type": "ask", "api": "openai", "body": body}))
            text, named = "", ""
            async for data in connection:
                frame = json.loads(data)
                assert frame["type"] != "error", frame
                text += frame["text"] if frame["type"] == "token" else ""
                if frame["type"] == "diagnostic" and frame["code"] == "media_named":
                    named = frame["message"]
                if frame["type"] == "done":
                    break
            answers.append((text, named))
    return answers


def verdict(one: Observation) -> str:
    """How the content came to the engine, and whether the client was told what did not."""
    images = [base64.b64decode(url.removeprefix("data:image/png;base64,")) for url in one.images]
    if images:
        how = "the bytes" if images == [image_of(one.content)] else "other bytes"
    else:
        how = "a link" if one.links else "its name" if "; this model " in one.result else "its text"
    return f"{how}, client told" if one.named else how


def _read_text(one: Observation) -> str:
    """What a model reads of the content."""
    if one.images:
        return "the image"
    if one.links:
        return "; ".join(f"{link['name']}, {link['uri']}" for link in one.links)
    # A line in place of a file is the last one; an embedded text is the second block.
    line = one.result.splitlines()[-1]
    return json.loads(line)[1]["text"] if line.startswith("[{") else line


def table_of(observations: Sequence[Observation]) -> Table:
    rows: list[tuple[str, ...]] = []
    for content in CONTENTS:
        for engine, media in ENGINES.items():
            seen = [one for one in observations if (one.content, one.engine) == (content, engine)]
            takes = "text" if media == "none" else f"text, {media}s"
            rows.append((content.label, takes, *map(verdict, seen), _read_text(seen[0])))
    return Table(
        "What engines get of a tool's content",
        _ABOUT,
        ("content", "engine takes", *APIS, "the model reads"),
        rows,
        text_columns=3 + len(APIS),
    )


def main() -> None:
    console = Console()
    with tempfile.TemporaryDirectory() as folder, content_gateway(Path(folder)) as gateway:
        table = table_of([one for api in APIS for one in observe(gateway, api)])
    print_table(table, console)
    servers = (CACHE / "mcp" / ".pins").read_text(encoding="utf-8").strip().replace("@modelcontextprotocol/", "")
    environment = measured_environment()
    about = f"{environment['date']}; Python {environment['Python']}; Ferrule {environment['Ferrule']}; {servers}."
    publish("mcp-content", "Content of MCP tools", [_COMMAND, about, markdown(table)])


if __name__ == "__main__":
    main()
