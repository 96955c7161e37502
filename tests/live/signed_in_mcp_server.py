"""An SDK server behind the SDK's own authorization server: `python signed_in_mcp_server.py PORT SECONDS LOG`.

Access tokens live for SECONDS. Refresh tokens are replaced at each use; a second use of one ends the grant, as the
security guidance for OAuth wants it. LOG gets a line for each consent, refresh and refusal. Files beside LOG
change what it does: `.revoked` ends every grant, `.revoked-one` those of the client whose id is in it, `.expired` every
access token, `.away` makes the token endpoint fail with 503, and `.slow` keeps its answers back while it is there.
"""

from __future__ import annotations

import secrets
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

PORT, SECONDS, LOG = int(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])
URL = f"http://127.0.0.1:{PORT}"


def log(line: str) -> None:
    with LOG.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


class Grants:
    """Everybody consents at once. A grant is the family of tokens that came from one consent."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, tuple[str, AccessToken]] = {}
        self.refresh: dict[str, tuple[str, RefreshToken]] = {}
        self.used: dict[str, str] = {}
        self.ended: set[str] = set()

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        log("registered")
        self.clients[str(client_info.client_id)] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        log("consent")
        code = secrets.token_urlsafe(24)
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or ["use"],
            expires_at=time.time() + 60,
            client_id=str(client.client_id),
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._issue(secrets.token_hex(8), authorization_code.client_id, authorization_code.scopes)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        grant = self.used.get(refresh_token)
        if grant is not None:
            log("reused")
            self.ended.add(grant)
        held = self.refresh.get(refresh_token)
        if held is None or held[0] in self._ended():
            log("refused")
            return None
        return held[1]

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        held = self.refresh.pop(refresh_token.token, None)
        if held is None:
            raise TokenError("invalid_grant")
        log("refreshed")
        self.used[refresh_token.token] = held[0]
        return self._issue(held[0], refresh_token.client_id, refresh_token.scopes)

    async def load_access_token(self, token: str) -> AccessToken | None:
        if LOG.with_suffix(".expired").exists():
            LOG.with_suffix(".expired").unlink()
            self.access.clear()
        held = self.access.get(token)
        is_good = held is not None and held[0] not in self._ended() and (held[1].expires_at or 0) > time.time()
        return held[1] if held is not None and is_good else None

    async def revoke_token(self, token: Any) -> None:
        """Nobody does."""

    def _issue(self, grant: str, client_id: str, scopes: list[str]) -> OAuthToken:
        access, refresh = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        expires_at = int(time.time() + SECONDS)
        self.access[access] = (
            grant,
            AccessToken(token=access, client_id=client_id, scopes=scopes, expires_at=expires_at, resource=f"{URL}/mcp"),
        )
        self.refresh[refresh] = (grant, RefreshToken(token=refresh, client_id=client_id, scopes=scopes))
        lifetime = max(1, int(SECONDS))
        return OAuthToken(access_token=access, expires_in=lifetime, refresh_token=refresh, scope=" ".join(scopes))

    def _ended(self) -> set[str]:
        if LOG.with_suffix(".revoked").exists():
            LOG.with_suffix(".revoked").unlink()
            self.ended |= {grant for grant, _ in (*self.access.values(), *self.refresh.values())}
        one = LOG.with_suffix(".revoked-one")
        if one.exists():
            client = one.read_text(encoding="utf-8")
            one.unlink()
            self.ended |= {grant for grant, held in self.refresh.values() if held.client_id == client}
        return self.ended


class Outage:
    """Lets the token endpoint fail while the file is there."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/token" and LOG.with_suffix(".away").exists():
            log("away")
            await Response("gone for a moment", 503)(scope, receive, send)
            return
        if scope["type"] == "http" and scope["path"] == "/token" and LOG.with_suffix(".slow").exists():
            log("waiting")
            while LOG.with_suffix(".slow").exists():
                await anyio.sleep(0.02)
        await self.app(scope, receive, send)


auth: Any = AuthSettings.model_validate(
    {
        "issuer_url": URL,
        "resource_server_url": f"{URL}/mcp",
        "required_scopes": ["use"],
        "validate_token_resource": True,
        "client_registration_options": ClientRegistrationOptions(
            enabled=True, valid_scopes=["use"], default_scopes=["use"]
        ),
    }
)
grants: Any = Grants()
server = MCPServer("private", auth_server_provider=grants, auth=auth)


@server.tool()
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@server.tool()
def whoami() -> str:
    """Names the client of the caller: each account has registered one of its own."""
    token = get_access_token()
    return token.client_id if token is not None else ""


@server.tool()
async def slow(seconds: float) -> str:
    """Takes its time."""
    log("slow")
    await anyio.sleep(seconds)
    return "done"


uvicorn.run(Outage(server.streamable_http_app()), host="127.0.0.1", port=PORT, log_level="error")
