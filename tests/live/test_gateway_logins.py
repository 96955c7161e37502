"""Logins to MCP servers through the gateway: two workers, a browser with cookies, and somebody else's browser."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import pytest

from live.private_server import KEY, Private, private_server
from server.gateway_process import ANN, EVE, GatewayProcess, gateway_with_config
from server.keys import key
from waiting import PATIENCE, eventually

pytestmark = pytest.mark.live
GUEST = "guest-of-acme"


@pytest.fixture
def private(tmp_path: Path) -> Iterator[Private]:
    with private_server(tmp_path) as world:
        yield world


@pytest.fixture(params=["principal"])
def gateway(
    request: pytest.FixtureRequest, private: Private, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[GatewayProcess]:
    monkeypatch.setenv("FERRULE_CREDENTIALS_KEY", KEY)
    config = tmp_path / "mcp.json"
    entry = {"url": f"{private.url}/mcp", "oauth": {"account": request.param}, "readOnly": True}
    config.write_text(json.dumps({"mcpServers": {"private": entry}}), encoding="utf-8")
    lines = [
        '[engines.e0]\nuse = "fake:Hello."',
        f'[server]\nport = 0\nworkers = 2\ndrain_seconds = 1\nledger = "{tmp_path / "ledger.db"}"',
        f'[sources]\nmcp_config = "{config}"\nmcp_credentials = "ledger"\nmcp_tool_refresh_seconds = 1',
        *(
            f'[keys.{name}]\nsha256 = "{key(name).sha256}"\ntenant = "{name}"\ntools = ["*"]\n{more}'
            for name, more in ((ANN, "admin = true\noperator = true"), (EVE, "admin = true"), (GUEST, ""))
        ),
    ]
    with gateway_with_config(tmp_path, "\n".join(lines)) as running:
        yield running


class Browser:
    """Keeps cookies, follows redirects, and sends a person's key to the gateway's API."""

    def __init__(self, gateway: GatewayProcess, who: str) -> None:
        self.gateway, self.who = gateway, who
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))

    def open(self, url: str) -> tuple[int, str]:
        return self._send(urllib.request.Request(url))

    def begin(self) -> tuple[int, dict[str, Any]]:
        headers = {"authorization": f"Bearer {self.who}"}
        url = f"{self.gateway.url}/v1/sources/private/login"
        status, text = self._send(urllib.request.Request(url, b"", headers, method="POST"))
        return status, json.loads(text)

    def _send(self, request: urllib.request.Request) -> tuple[int, str]:
        try:
            with self.opener.open(request, timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()


def source(gateway: GatewayProcess) -> dict[str, Any]:
    _, page = gateway.request("GET", "/v1/sources")
    return next(one for one in page["data"] if one["name"] == "private")


def is_offered(gateway: GatewayProcess) -> bool:
    # Each worker has a list of its own.
    pages = [gateway.request("GET", "/v1/tools")[1] for _ in range(8)]
    return all("private_whoami" in json.dumps(page) for page in pages)


def call_whoami(gateway: GatewayProcess, who: str) -> str:
    """Call the tool that a login has brought. The worker that takes the call may be the last to know it."""
    answers: list[tuple[int, Any]] = []

    def is_known() -> bool:
        answers.append(gateway.call("private_whoami", who))
        status, answer = answers[-1]
        return status != 400 or not answer["error"]["message"].startswith("unknown tool")

    eventually(is_known)
    status, answer = answers[-1]
    assert status == 200, answer
    return json.dumps(answer["content"])


def test_a_person_signs_in_with_a_browser_and_calls_as_themselves(private: Private, gateway: GatewayProcess) -> None:
    assert source(gateway)["state"] == "needs_login"
    assert source(gateway)["login"] == "/v1/sources/private/login"
    names: list[str] = []
    for who in (ANN, GUEST):
        browser = Browser(gateway, who)
        status, login = browser.begin()
        assert status == 200, login
        status, page = browser.open(login["url"])
        assert (status, "Login received" in page) == (200, True)
        eventually(lambda: is_offered(gateway))
        names.append(call_whoami(gateway, who))
    assert len({*names}) == 2
    assert (private.told["consent"], private.told["registered"]) == (2, 2)


def test_a_login_is_finished_once_and_only_by_the_browser_that_began_it(
    private: Private, gateway: GatewayProcess
) -> None:
    ann, eve, stranger = Browser(gateway, ANN), Browser(gateway, EVE), Browser(gateway, "")
    _, of_ann = ann.begin()
    _, of_eve = eve.begin()
    # Eve would use the account of the person who opens her address.
    for victim in (stranger, ann):
        status, page = victim.open(of_eve["url"])
        assert (status, "another browser began it" in page) == (404, True)
    assert source(gateway)["state"] == "needs_login"
    callback = f"{gateway.url}/v1/sources/callback"
    for query in ("", "?code=x", "?code=x&state=", "?code=x&state=guessed", "?error=denied&state=guessed"):
        assert ann.open(f"{callback}{query}")[0] == 404
    status, _ = ann.open(of_ann["url"])
    assert status == 200
    # The address of the consent leads to another code for the same login, which is over.
    assert ann.open(of_ann["url"])[0] == 404
    eventually(lambda: is_offered(gateway))
    call_whoami(gateway, ANN)


@pytest.mark.parametrize("gateway", ["shared"], indirect=True)
def test_an_account_that_all_callers_share_is_an_operators_to_sign_in(
    private: Private, gateway: GatewayProcess
) -> None:
    # Eve, an admin of one tenant, would let all others use her account.
    for who in (GUEST, EVE):
        status, refused = Browser(gateway, who).begin()
        assert (status, "may not sign in for others" in json.dumps(refused)) == (403, True)
    operator = Browser(gateway, ANN)
    _, login = operator.begin()
    assert operator.open(login["url"])[0] == 200
    eventually(lambda: is_offered(gateway))
    call_whoami(gateway, GUEST)
    assert private.told["consent"] == 1
