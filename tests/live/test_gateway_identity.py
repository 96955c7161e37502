"""Tokens of a real OpenID Connect provider, from outside: two `ferrule serve` processes, and the vendors' clients."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from lab.gateway_clients import clients
from live.oidc_provider import AUDIENCE, OidcProvider, oidc_provider
from server.gateway_process import GatewayProcess, gateway_with_config
from server.issuer import segment, signed_with_secret, unsigned
from waiting import PATIENCE, eventually

pytestmark = pytest.mark.live

TOOLS = '''"""Tools."""

from ferrule import CallContext, tool


@tool
def get_me(context: CallContext) -> str:
    """Who is calling."""
    return f"{context.principal.name} of {context.principal.tenant}"
'''
HELLO = [{"role": "user", "content": "Hi"}]
APIS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"model": "e0", "messages": HELLO}),
    "responses": ("/v1/responses", {"model": "e0", "input": "Hi"}),
    "messages": ("/v1/messages", {"model": "e0", "messages": HELLO, "max_tokens": 9}),
    "mcp": ("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}),
}


@pytest.fixture(scope="module")
def provider() -> Iterator[OidcProvider]:
    with oidc_provider() as one:
        yield one


def config_of(provider: OidcProvider, folder: Path) -> str:
    tools = folder / "tools.py"
    tools.write_text(TOOLS, encoding="utf-8")
    return (
        '[engines.e0]\nuse = "fake:Hello."\n'
        f'[server]\nport = 0\ndrain_seconds = 1\nledger = "{folder / "ledger.db"}"\n'
        f'[sources]\nfunctions = ["{tools}"]\n'
        f'[identity.corp]\nissuer = "{provider.issuer}"\naudience = ["{AUDIENCE}"]\nleeway_seconds = 1\n'
        'tenant_claim = "tenant"\nrole_claim = "scope"\n'
        '[roles.agent]\ntools = ["get_*"]\n[roles.boss]\ntools = ["*"]\napprove = true\nadmin = true\n'
    )


@pytest.fixture(scope="module")
def gateway(provider: OidcProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    folder = tmp_path_factory.mktemp("gateway")
    with gateway_with_config(folder, config_of(provider, folder)) as one:
        yield one


def ask(gateway: GatewayProcess, token: str, api: str = "chat") -> tuple[int, str]:
    """The status, and the code of an error."""
    path, body = APIS[api]
    status, answer = gateway.request("POST", path, body, token)
    if status == 200:
        return status, ""
    error = answer["ferrule"]["error"] if "ferrule" in answer else answer["error"]
    assert token.rpartition(".")[2] not in json.dumps(answer) or not token.rpartition(".")[2]
    return status, error["data"]["code"] if "jsonrpc" in answer else error["code"]


def parts_of(token: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    header, claims, signature = token.split(".")
    header, claims = (json.loads(base64.urlsafe_b64decode(one + "=" * (-len(one) % 4))) for one in (header, claims))
    return header, claims, signature


def handshake(gateway: GatewayProcess, token: str) -> ClientConnection:
    url = gateway.url.replace("http://", "ws://") + "/v1/stream"
    return connect(url, additional_headers={"authorization": f"Bearer {token}"}, open_timeout=PATIENCE)


def end_of(socket: ClientConnection) -> tuple[int, str]:
    """Wait for the end of a connection, and return the gateway's close code and reason."""
    with suppress(ConnectionClosed):
        while True:
            socket.recv(timeout=PATIENCE)
    return socket.close_code or 0, socket.close_reason or ""


def test_two_tenants_call_every_api_and_their_names_reach_the_tools(
    gateway: GatewayProcess, provider: OidcProvider
) -> None:
    ann, eve = provider.token("ann"), provider.token("eve", "boss")
    for api in APIS:
        assert ask(gateway, ann, api) == ask(gateway, eve, api) == (200, "")
    assert gateway.call("get_me", ann)[1]["content"] == "corp:ann of acme"
    assert gateway.call("get_me", eve)[1]["content"] == "corp:eve of evil"
    assert gateway.request("GET", "/v1/me", None, eve)[1]["rights"] == ["admin", "approve", "models", "tools"]
    assert gateway.request("GET", "/v1/keys", None, ann)[0] == 403
    _, made = gateway.request("POST", "/v1/keys", {"name": "app"}, eve)
    boss = provider.token("ann", "boss")
    assert [one["name"] for one in gateway.request("GET", "/v1/keys", None, eve)[1]["data"]] == ["app"]
    assert gateway.request("GET", "/v1/keys", None, boss)[1]["data"] == []
    assert gateway.request("GET", f"/v1/keys/{made['id']}", None, boss)[0] == 404


def test_every_wrong_token_is_refused_for_its_own_reason(gateway: GatewayProcess, provider: OidcProvider) -> None:
    good = provider.token()
    header, claims, signature = parts_of(good)
    point = provider.published_key()
    short = provider.token("short")
    with oidc_provider() as other:
        foreign = other.token()
    eventually(lambda: ask(gateway, short)[0] == 401)
    wrong = {
        "token_expired": short,
        "token_not_yet_valid": provider.token("early"),
        "token_audience": provider.token(audience="https://other.example"),
        "token_issuer": foreign,
        "token_unknown_key": provider.token("stranger"),
        "token_signature": f"{segment(header)}.{segment({**claims, 'scope': 'boss'})}.{signature}",
    }
    algorithms = [
        unsigned({**header, "alg": "none"}, claims),
        provider.token("symmetric"),
        signed_with_secret({**header, "alg": "HS256"}, claims, json.dumps(point).encode()),
    ]
    for api in APIS:
        for expected, token in [*wrong.items(), *(("token_algorithm", one) for one in algorithms)]:
            assert ask(gateway, token, api) == (401, expected)
        assert ask(gateway, good, api) == (200, "")
    assert ask(gateway, provider.token(scope="")) == (403, "token_without_role")
    log = gateway.output.read_text()
    for token in (good, *wrong.values(), *algorithms):
        assert all(part not in log for part in token.split(".") if len(part) > 20)


def test_a_websocket_takes_a_token_and_says_why_it_does_not(gateway: GatewayProcess, provider: OidcProvider) -> None:
    with handshake(gateway, provider.token()) as socket:
        socket.send(json.dumps({"type": "ask", "body": {"model": "e0", "messages": HELLO}}))
        kinds = []
        while not kinds or kinds[-1] not in ("done", "error"):
            kinds.append(json.loads(socket.recv(timeout=PATIENCE))["type"])
        assert kinds[-1] == "done"
    with pytest.raises(InvalidStatus) as refused:
        handshake(gateway, provider.token(audience="https://other.example"))
    response = refused.value.response
    assert response.status_code == 401
    assert response.headers["www-authenticate"].startswith('Bearer realm="ferrule", error="invalid_token"')
    assert json.loads(response.body)["error"]["code"] == "token_audience"


def test_a_websocket_ends_with_its_token(gateway: GatewayProcess, provider: OidcProvider) -> None:
    for _ in range(50):
        # On a busy machine a token of three seconds may have expired before its handshake.
        try:
            with handshake(gateway, provider.token("short")) as socket:
                assert end_of(socket) == (1008, "token_expired")
                return
        except InvalidStatus:
            continue
    raise AssertionError("no handshake within the seconds of a token")


def test_the_vendors_clients_send_a_token_and_read_what_to_do(gateway: GatewayProcess, provider: OidcProvider) -> None:
    with clients() as sdk:
        options = {"url": gateway.url, "model": "e0", "more": {"tool_choice": "auto", "tools": []}}
        good = sdk.ask("openai", "live_openai.chat_chunks", {**options, "key": provider.token()})
        assert (good.get("error"), good["text"]) == (None, "Hello.")
        wrong = provider.token(audience="https://other.example")
        refused = sdk.ask("openai", "live_openai.chat_chunks", {**options, "key": wrong})
        assert refused["error"].startswith("AuthenticationError: Error code: 401")
        assert f"Request a token for the audience {AUDIENCE}." in refused["error"]
        options = {"url": gateway.url, "model": "e0", "more": {"tool_choice": {"type": "auto"}}}
        good = sdk.ask("anthropic", "live_anthropic.events", {**options, "key": provider.token()})
        assert (good.get("error"), good["text"]) == (None, "Hello.")
        refused = sdk.ask("anthropic", "live_anthropic.events", {**options, "key": wrong})
        assert refused["error"].startswith("AuthenticationError: Error code: 401")
        assert "token_audience" in refused["error"]


def test_a_rotated_key_is_taken_up_by_two_processes_and_a_withdrawn_one_is_not_known_to_a_new_one(
    tmp_path: Path,
) -> None:
    folders = [tmp_path / name for name in ("one", "two", "three")]
    for folder in folders:
        folder.mkdir()
    with oidc_provider() as provider:
        config = config_of(provider, tmp_path)
        with gateway_with_config(folders[0], config) as first, gateway_with_config(folders[1], config) as second:
            old = provider.token()
            assert ask(first, old) == ask(second, old) == (200, "")
            provider.command("rotate")
            new = provider.token()
            assert parts_of(new)[0]["kid"] != parts_of(old)[0]["kid"]
            for gateway in (first, second):
                # Not sooner than ten seconds after the last fetch.
                eventually(lambda gateway=gateway: ask(gateway, new) == (200, ""))
                assert ask(gateway, old) == (200, "")
            provider.command("withdraw")
            with gateway_with_config(folders[2], config) as third:
                assert ask(third, new) == (200, "")
                assert ask(third, old) == (401, "token_unknown_key")
