"""What MCP servers' tools return, over all four APIs, with SDKs and a WebSocket, to two kinds of engines.

The server is npm's server-everything, the gateway runs its tools. The engine that takes images gets the bytes of the
file, one that takes text only gets a line with the image's type and size, and the response has a header that says so.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
from collections.abc import Generator

import pytest

from lab.gateway_process import SMOL, gateway_process
from lab.mcp_content import (
    ANSWER,
    APIS,
    BLIND,
    CHART,
    CONTENTS,
    SEEING,
    ContentGateway,
    Observation,
    content_gateway,
    image_of,
    observe,
)
from lab.paths import CACHE
from waiting import PATIENCE

pytestmark = pytest.mark.live
_LINKS = {
    "demo://resource/dynamic/blob/1": "Blob Resource 1",
    "demo://resource/dynamic/text/2": "Text Resource 2",
}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Generator[ContentGateway]:
    with content_gateway(tmp_path_factory.mktemp("content")) as started:
        yield started


@pytest.mark.parametrize("api", APIS)
def test_content_of_mcp_tools_is_carried_or_named_to_the_engine_and_the_client_is_told(
    api: str, gateway: ContentGateway
) -> None:
    observations = {(one.engine, one.content.label): one for one in observe(gateway, api)}
    assert len(observations) == 2 * len(CONTENTS)
    assert {one.answer for one in observations.values()} == {ANSWER}

    # The engine that takes images gets the bytes, the other one a line with the type and the size.
    image = image_of(CONTENTS[0])
    line = f"[image 1: image/png, {len(image) / 1000:.0f} kB; this model cannot see images]"
    expect_image(observations[SEEING, "image"], image)
    expect_line(observations[BLIND, "image"], line, "1 image")
    line = "[image 1: chart://sales/one, image/png, 22 bytes; this model cannot see images]"
    expect_image(observations[SEEING, "image of a resource"], CHART)
    expect_line(observations[BLIND, "image of a resource"], line, "1 image")

    for engine in (SEEING, BLIND):
        # A link is text: both get it whole, and nothing is left out that the client would have to know of.
        linked = observations[engine, "resource link"]
        assert {link["uri"]: link["name"] for link in linked.links} == _LINKS
        embedded = observations[engine, "embedded text"]
        assert "demo://resource/dynamic/text/2" in embedded.result
        assert "Resource 2: This is a plaintext resource" in embedded.result
        assert (linked.images, linked.named, embedded.images, embedded.named) == ([], "", [], "")
        # Neither takes files. The size varies with the server's clock.
        file = observations[engine, "embedded file"]
        assert re.search(
            r"\[file 1: demo://resource/dynamic/blob/1, text/plain, \d+ bytes; this model .+\]", file.result
        )
        assert "1 file" in file.named


def expect_image(seen: Observation, content: bytes) -> None:
    (sent,) = seen.images
    kind, _, data = sent.partition(";base64,")
    assert (kind, base64.b64decode(data)) == ("data:image/png", content)
    assert "this model" not in json.dumps(seen.messages)
    assert seen.named == ""


def expect_line(seen: Observation, line: str, named: str) -> None:
    assert seen.images == []
    assert "base64" not in json.dumps(seen.messages)
    assert line in seen.result
    # Without a stream the whole answer is known when its head is sent.
    assert named in seen.named


_LOOKS = """
import openai, sys
client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none")
answer = client.chat.completions.with_raw_response.create(
    model="text", max_tokens=20, messages=[{"role": "user", "content": [{"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}])
answer.parse()
print(answer.headers.get("ferrule-media", ""))
"""


def test_a_real_text_model_reads_on_after_the_image() -> None:
    """What it says is its own. The image is in the history, as a client that ran the tool sends it."""
    with gateway_process(["--engine", f"text={SMOL}"], engine=None) as started:
        python = CACHE / "venvs" / "client-openai" / "bin" / "python"
        command = [str(python), "-c", _LOOKS, started.url]
        done = subprocess.run(command, check=False, capture_output=True, encoding="utf-8", timeout=PATIENCE)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == "named: 1 image\n"
