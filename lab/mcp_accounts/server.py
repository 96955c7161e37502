"""An MCP server that says who its caller's token is for: `server.py NAME PORT ISSUER LOG`.

Without an ISSUER it wants no token. LOG gets a line for every token that was not meant for this server.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any, Final, cast

import jwt
import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer
from starlette.types import ASGIApp, Receive, Scope, Send

NAME, PORT, ISSUER, LOG = sys.argv[1], int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
URL: Final = f"http://127.0.0.1:{PORT}/mcp"


def note(line: str) -> None:
    with LOG.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


class Verifier:
    """Verifies the tokens of the authorization server by its published keys."""

    def __init__(self) -> None:
        # Kept while the authorization server is away: its keys stay the same.
        self._keys = jwt.PyJWKClient(f"{ISSUER}/jwks", lifespan=86_400)

    async def verify_token(self, token: str) -> AccessToken | None:
        try:
            key = await asyncio.to_thread(self._keys.get_signing_key_from_jwt, token)
            claims = jwt.decode(token, key, algorithms=["ES256"], audience=URL, issuer=ISSUER)
        except jwt.PyJWTError as error:
            note(f"refused {type(error).__name__}")
            return None
        return AccessToken(
            token=token,
            client_id=str(claims["client_id"]),
            scopes=str(claims.get("scope", "")).split(),
            expires_at=int(claims["exp"]),
            resource=URL,
            subject=str(claims["sub"]),
        )


class Audience:
    """Reports tokens that were sent here and are for another server."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = cast("list[tuple[bytes, bytes]]", scope.get("headers", []))
        for _, value in (one for one in headers if one[0] == b"authorization"):
            token = value.decode("latin-1").removeprefix("Bearer ")
            try:
                audience: object = jwt.decode(token, options={"verify_signature": False}).get("aud")
            except jwt.PyJWTError:
                audience = "unreadable"
            if not ISSUER or audience != URL:
                note(f"foreign {audience}")
        await self.app(scope, receive, send)


def make_server() -> MCPServer:
    if not ISSUER:
        return MCPServer(NAME)
    settings: dict[str, Any] = {
        "issuer_url": ISSUER,
        "resource_server_url": URL,
        "required_scopes": ["use"],
    }
    return MCPServer(NAME, token_verifier=Verifier(), auth=AuthSettings.model_validate(settings))


server = make_server()


@server.tool()
async def whoami(seconds: float = 0.0) -> str:
    """Names the account of the caller's token, after some seconds."""
    await asyncio.sleep(seconds)
    token = get_access_token()
    return str(token.subject) if token is not None else "nobody"


if __name__ == "__main__":
    uvicorn.run(Audience(server.streamable_http_app()), host="127.0.0.1", port=PORT, log_level="warning")
