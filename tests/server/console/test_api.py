"""What a browser is sent at `/console/`, and what it is told with it."""

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
from ferrule.server.auth.admission import Door
from ferrule.server.config.config import Config
from ferrule.server.console import api as console
from ferrule.server.console import files
from ferrule.server.http import Answer, Asked, Whole
from ferrule.server.observability.middleware import WatchedFront
from server.client import Answered, Client, gateway_of, speaking
from server.console.built import MARK, PAGE, SCRIPT, SCRIPT_PATH, built
from server.keys import key, keyed

KEYED = keyed(key("ann"))
GZIP = {"accept-encoding": "gzip, deflate, br"}


@asynccontextmanager
async def page_of(folder: Path, config: Config = KEYED) -> AsyncGenerator[Client]:
    async with gateway_of(speaking(), config=config) as client:
        door, routes = Door(client.gateway.config), console.routes(client.gateway.config, folder)
        app = asgi(routes, [], WatchedFront.around(door, client.gateway.watch, routes, []))
        yield Client(app, client.gateway)


def got(folder: Path, path: str, headers: Mapping[str, str] | None = None, **more: Any) -> Answered:
    async def scenario() -> Answered:
        async with page_of(folder, **more) as client:
            return await client.get(path, headers)

    return asyncio.run(scenario())


@pytest.mark.parametrize("path", ["/", "/console"])
def test_who_comes_to_the_door_is_led_to_the_page(tmp_path: Path, path: str) -> None:
    answer = got(built(tmp_path), f"{path}?next=//evil.example")
    assert (answer.status, answer.headers["location"], answer.body) == (307, "/console/", b"")


@pytest.mark.parametrize(
    "path",
    ["", "index.html", "chat", "approvals/appr_1", "traces/conv_1", "no/such/page", "mark.svg/x", "index.html.gz"],
)
def test_every_address_of_the_page_gives_the_page_without_a_key(tmp_path: Path, path: str) -> None:
    answer = got(built(tmp_path), f"/console/{path}")
    assert (answer.status, answer.body) == (200, PAGE)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"


def test_a_hashed_file_is_kept_for_ever_and_another_is_asked_for_again(tmp_path: Path) -> None:
    folder = built(tmp_path)
    script, mark = got(folder, f"/console/{SCRIPT_PATH}"), got(folder, "/console/mark.svg")
    assert (script.body, mark.body) == (SCRIPT, MARK)
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert script.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert mark.headers["cache-control"] == "no-cache"


def test_a_script_of_another_build_is_not_there_and_the_page_is_not_sent_for_it(tmp_path: Path) -> None:
    answer = got(built(tmp_path), "/console/assets/index-00000000.js")
    assert answer.status == 404
    assert answer.json()["error"]["code"] == "not_found"
    assert "immutable" not in answer.headers.get("cache-control", "")


def test_who_takes_gzip_is_sent_what_the_build_compressed(tmp_path: Path) -> None:
    folder = built(tmp_path)
    for path, body in {SCRIPT_PATH: SCRIPT, "": PAGE}.items():
        small, plain = got(folder, f"/console/{path}", GZIP), got(folder, f"/console/{path}")
        assert small.headers["content-encoding"] == "gzip"
        assert small.headers["content-length"] == str(len(small.body))
        assert len(small.body) < len(body)
        assert (gzip.decompress(small.body), plain.body) == (body, body)
        assert "content-encoding" not in plain.headers
        # Whoever keeps answers between us must not hand the one to who wants the other.
        assert small.headers["vary"] == plain.headers["vary"] == "accept-encoding"
    assert "content-encoding" not in got(folder, "/console/mark.svg", GZIP).headers


@pytest.mark.parametrize("path", ["/", "/console/", "/console/chat", f"/console/{SCRIPT_PATH}", "/console/mark.svg"])
def test_a_browser_may_load_nothing_but_the_gateways_own(tmp_path: Path, path: str) -> None:
    headers = got(built(tmp_path), path).headers
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
    folder = built(tmp_path)
    (tmp_path / "api.py").write_text("outside")
    (folder / ".env").write_text("outside")
    assert got(folder, f"/console/{path}").body == PAGE


def test_any_path_gives_the_page_or_says_that_there_is_no_such_file(tmp_path: Path) -> None:
    *_, route = console.routes(KEYED, built(tmp_path))

    async def answered(path: str) -> Answer:
        return await route.handler(Asked("GET", "/console/", "req", params={"path": path}))

    @given(st.text(max_size=40), st.booleans())
    def holds(path: str, is_asset: bool) -> None:
        if is_asset:
            with pytest.raises(NotFoundError):
                asyncio.run(answered(f"assets/{path}"))
        else:
            answer = asyncio.run(answered(path))
            assert isinstance(answer, Whole)
            assert answer.body == PAGE

    holds()


def test_only_reading_is_for_who_has_no_key(tmp_path: Path) -> None:
    async def scenario() -> list[int]:
        async with page_of(built(tmp_path)) as client:
            return [(await client.ask(how, "/console/", {})).status for how in ("HEAD", "POST", "PUT", "DELETE")]

    assert asyncio.run(scenario()) == [200, 401, 401, 401]


def test_what_was_not_built_says_how_to_build_it(tmp_path: Path) -> None:
    answer = got(tmp_path / "nowhere", "/console/chat")
    assert answer.status == 404
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    assert b"scripts/setup-console" in answer.body
    assert b"ferrule[server]" in answer.body


def test_where_any_name_is_answered_to_and_nobody_has_a_key_there_is_no_console_and_it_says_why(tmp_path: Path) -> None:
    folder = built(tmp_path)
    answer = got(folder, "/console/", config=keyed(hosts=("*",), insecure=True))
    assert (answer.status, b"hosts" in answer.body, b"ferrule keys new" in answer.body) == (403, True, True)
    assert got(folder, "/console/", config=keyed(key("ann"), hosts=("*",))).body == PAGE
    assert got(folder, "/console/", config=keyed()).body == PAGE


def test_the_page_is_told_apart_from_the_rest_by_its_path_alone_in_logs_and_figures(tmp_path: Path) -> None:
    async def scenario() -> list[str]:
        async with gateway_of(speaking()) as client:
            routes = console.routes(client.gateway.config, built(tmp_path))
            front = WatchedFront.around(Door(client.gateway.config), client.gateway.watch, routes, [])
            app = asgi(routes, [], front)
            for path in ("", "chat", "traces/conv_1", SCRIPT_PATH):
                await Client(app, client.gateway).get(f"/console/{path}")
            told = await client.get("/metrics")
            return [line for line in told.body.decode().splitlines() if "console" in line or "conv_1" in line]

    lines = asyncio.run(scenario())
    assert lines
    assert all('"/console/{path}"' in line for line in lines)


def test_a_gateway_has_the_page_of_its_package() -> None:
    async def scenario() -> set[str]:
        async with gateway_of(speaking()) as client:
            return {route.path for route in routes_of(client.gateway)}

    assert {"/", "/console", "/console/{path:path}", "/v1/me"} <= asyncio.run(scenario())
    assert files.STATIC.parts[-3:] == ("server", "console", "static")
