"""The responses of `/console/` and their headers."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.errors import NotFoundError
from ferrule.server.app import routes_of
from ferrule.server.asgi import asgi
from ferrule.server.auth.admission import Admission
from ferrule.server.config.config import Config
from ferrule.server.console import api as console
from ferrule.server.console import files
from ferrule.server.http import AnyResponse, Request, Response
from ferrule.server.observability.middleware import InstrumentedApp
from server.client import Client, ClientResponse, gateway_of, scripted_engine
from server.console.built import LOGO, PAGE, SCRIPT, SCRIPT_PATH, write_build
from server.keys import config_with_keys, key

CONFIG = config_with_keys(key("ann"))
GZIP = {"accept-encoding": "gzip, deflate, br"}


@asynccontextmanager
async def page_of(folder: Path, config: Config = CONFIG) -> AsyncGenerator[Client]:
    async with gateway_of(scripted_engine(), config=config) as client:
        admission, routes = Admission(client.gateway.config), console.routes(client.gateway.config, folder)
        app = asgi(routes, [], InstrumentedApp.wrap(admission, client.gateway.telemetry, routes, []))
        yield Client(app, client.gateway)


def get(folder: Path, path: str, headers: Mapping[str, str] | None = None, **more: Any) -> ClientResponse:
    async def scenario() -> ClientResponse:
        async with page_of(folder, **more) as client:
            return await client.get(path, headers)

    return asyncio.run(scenario())


@pytest.mark.parametrize("path", ["/", "/console"])
def test_the_root_redirects_to_the_console(tmp_path: Path, path: str) -> None:
    answer = get(write_build(tmp_path), f"{path}?next=//evil.example")
    assert (answer.status, answer.headers["location"], answer.body) == (307, "/console/", b"")


@pytest.mark.parametrize(
    "path",
    ["", "index.html", "chat", "approvals/appr_1", "traces/conv_1", "no/such/page", "mark.svg/x", "index.html.gz"],
)
def test_every_path_of_the_console_serves_the_page_without_a_key(tmp_path: Path, path: str) -> None:
    answer = get(write_build(tmp_path), f"/console/{path}")
    assert (answer.status, answer.body) == (200, PAGE)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"


def test_a_hashed_file_is_immutable_and_others_are_revalidated(tmp_path: Path) -> None:
    folder = write_build(tmp_path)
    script, mark = get(folder, f"/console/{SCRIPT_PATH}"), get(folder, "/console/mark.svg")
    assert (script.body, mark.body) == (SCRIPT, LOGO)
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert script.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert mark.headers["cache-control"] == "no-cache"


def test_a_script_of_another_build_is_not_found(tmp_path: Path) -> None:
    answer = get(write_build(tmp_path), "/console/assets/index-00000000.js")
    assert answer.status == 404
    assert answer.json()["error"]["code"] == "not_found"
    assert "immutable" not in answer.headers.get("cache-control", "")


def test_a_client_that_accepts_gzip_gets_the_compressed_file(tmp_path: Path) -> None:
    folder = write_build(tmp_path)
    for path, body in {SCRIPT_PATH: SCRIPT, "": PAGE}.items():
        small, plain = get(folder, f"/console/{path}", GZIP), get(folder, f"/console/{path}")
        assert small.headers["content-encoding"] == "gzip"
        assert small.headers["content-length"] == str(len(small.body))
        assert len(small.body) < len(body)
        assert (gzip.decompress(small.body), plain.body) == (body, body)
        assert "content-encoding" not in plain.headers
        # A cache in between must not send the compressed response to a client that accepts only the plain one.
        assert small.headers["vary"] == plain.headers["vary"] == "accept-encoding"
    assert "content-encoding" not in get(folder, "/console/mark.svg", GZIP).headers


@pytest.mark.parametrize("path", ["/", "/console/", "/console/chat", f"/console/{SCRIPT_PATH}", "/console/mark.svg"])
def test_the_content_security_policy_allows_only_the_gateway(tmp_path: Path, path: str) -> None:
    headers = get(write_build(tmp_path), path).headers
    assert dict(one.split(" ", 1) for one in headers["content-security-policy"].split("; ")) == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert not [name for name in headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "path",
    [
        *("../api.py", "../../../../etc/passwd", "..%2f..%2fapi.py", "%2e%2e/api.py", "....//api.py", "..\\api.py"),
        *("/etc/passwd", "//evil.example/x", "file:///etc/passwd", "index.html\x00.js", ".env", "./mark.svg", "assets"),
    ],
)
def test_no_path_leads_out_of_the_folder(tmp_path: Path, path: str) -> None:
    folder = write_build(tmp_path)
    (tmp_path / "api.py").write_text("outside")
    (folder / ".env").write_text("outside")
    assert get(folder, f"/console/{path}").body == PAGE


def test_any_path_serves_the_page_or_is_not_found(tmp_path: Path) -> None:
    *_, route = console.routes(CONFIG, write_build(tmp_path))

    async def respond(path: str) -> AnyResponse:
        return await route.handler(Request("GET", "/console/", "req", params={"path": path}))

    @given(st.text(max_size=40), st.booleans())
    def check(path: str, is_asset: bool) -> None:
        if is_asset:
            with pytest.raises(NotFoundError):
                asyncio.run(respond(f"assets/{path}"))
        else:
            answer = asyncio.run(respond(path))
            assert isinstance(answer, Response)
            assert answer.body == PAGE

    check()


def test_only_get_and_head_need_no_key(tmp_path: Path) -> None:
    async def scenario() -> list[int]:
        async with page_of(write_build(tmp_path)) as client:
            return [(await client.request(how, "/console/", {})).status for how in ("HEAD", "POST", "PUT", "DELETE")]

    assert asyncio.run(scenario()) == [200, 401, 401, 401]


def test_a_console_that_is_not_built_explains_how_to_build_it(tmp_path: Path) -> None:
    answer = get(tmp_path / "nowhere", "/console/chat")
    assert answer.status == 404
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    assert b"scripts/setup-console" in answer.body
    assert b"ferrule[server]" in answer.body


def test_a_gateway_with_any_host_and_no_keys_serves_no_console_and_explains_why(tmp_path: Path) -> None:
    folder = write_build(tmp_path)
    answer = get(folder, "/console/", config=config_with_keys(hosts=("*",), insecure=True))
    assert (answer.status, b"hosts" in answer.body, b"ferrule keys new" in answer.body) == (403, True, True)
    assert get(folder, "/console/", config=config_with_keys(key("ann"), hosts=("*",))).body == PAGE
    assert get(folder, "/console/", config=config_with_keys()).body == PAGE


def test_metrics_show_the_route_of_the_console_and_not_its_paths(tmp_path: Path) -> None:
    async def scenario() -> list[str]:
        async with gateway_of(scripted_engine()) as client:
            routes = console.routes(client.gateway.config, write_build(tmp_path))
            middleware = InstrumentedApp.wrap(Admission(client.gateway.config), client.gateway.telemetry, routes, [])
            app = asgi(routes, [], middleware)
            for path in ("", "chat", "traces/conv_1", SCRIPT_PATH):
                await Client(app, client.gateway).get(f"/console/{path}")
            metrics = await client.get("/metrics")
            return [line for line in metrics.body.decode().splitlines() if "console" in line or "conv_1" in line]

    lines = asyncio.run(scenario())
    assert lines
    assert all('"/console/{path}"' in line for line in lines)


def test_a_gateway_serves_the_console_of_its_package() -> None:
    async def scenario() -> set[str]:
        async with gateway_of(scripted_engine()) as client:
            return {route.path for route in routes_of(client.gateway)}

    assert {"/", "/console", "/console/{path:path}", "/v1/me"} <= asyncio.run(scenario())
    assert files.STATIC.parts[-3:] == ("server", "console", "static")
