"""SignIn: the OAuth client of one MCP server. The flow is the SDK's; ours is what is kept, and who may be asked.

The SDK's provider lives as long as a process. Four things are added, each of which would cost a person a second consent
or send a token to the wrong place:

- What was kept is restored whole: when the token expires, and the metadata of the authorization server. The SDK keeps
  neither, so an expired token would be sent as it is, and a refresh token to an address that was guessed.
- A process that refreshes holds the lock of the store and reads it again: another may have the new token already.
- A 401 with a refresh token in hand is answered by a refresh, and by a new sign-in only after that.
- An authorization server that fails for the moment costs no token: only its refusal of a refresh does.

Nobody is asked in a gateway: `person` is None there, and a server that wants a person is marked in `login`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.shared.auth import (
    JWT_BEARER_GRANT_TYPE,
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)

from ferrule.core.json_text import loads
from ferrule.errors import FerruleError
from ferrule.sources.mcp.config import HttpTransport, IdentityProvider, OAuthClient, Server
from ferrule.sources.mcp.credentials import Credentials, CredentialStore, credential_id
from ferrule.sources.mcp.login import Person, login_hint

# The SDK logs what authorization servers answer, which may repeat a secret. The connection reports what went wrong.
logging.getLogger("mcp.client.auth.oauth2").disabled = True

CLIENT_NAME = "Ferrule"
_EXPIRED = 1.0
_MAX_MESSAGE = 200
_NEVER = object()
_TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_GRANT_TOKEN = "urn:ietf:params:oauth:token-type:id-jag"
_ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"
_SCOPE = re.compile(r'scope="([^"\\]{1,500})"')
_ERROR_CODE = re.compile(r"[a-z_]{1,40}")
_EARLY_SECONDS = 10.0
"""A token is renewed this long before it expires, so that it does not expire on its way."""


class SignIn:
    """The authorization of the requests to one server. `auth` is what the HTTP client drives."""

    def __init__(
        self, server: Server, transport: HttpTransport, store: CredentialStore, person: Person | None = None
    ) -> None:
        self._id = credential_id(server)
        self._server = server.name
        self._store = store
        self._url = transport.url
        self._person = person
        self._answer = ""
        self.may_continue = person is not None or transport.oauth.signs_in_itself
        """Whether a refusal may start a new sign-in."""
        self.auth: Any = _provider(transport, _Storage(self), person)
        self._client = transport.oauth
        self._seen: Credentials | None = None
        self._version: object = _NEVER

    @property
    def can_refresh(self) -> bool:
        return self.auth.context.can_refresh_token()

    @property
    def is_valid(self) -> bool:
        return self.auth.context.is_token_valid()

    @property
    def token(self) -> str:
        """The access token; empty if there is none that is good."""
        return self.auth.context.current_tokens.access_token if self.is_valid or self._is_spare else ""

    @property
    def _is_spare(self) -> bool:
        """Whether a token that should be renewed by now has not expired yet: it is good until then."""
        tokens, kept = self.auth.context.current_tokens, self._seen
        if tokens is None or kept is None or kept.expires_at is None or not self.can_refresh:
            return False
        return time.time() < kept.expires_at + _early_seconds(tokens.expires_in or 0.0)

    def lock(self) -> AbstractAsyncContextManager[None]:
        return self._store.lock(self._id)

    async def restore(self, *, is_forced: bool = False) -> None:
        """Read what is kept, if it changed since it was read or written here."""
        version = await self._store.version(self._id)
        if version == self._version and not is_forced:
            return
        self._version = version
        kept = await self._store.read(self._id)
        if kept == self._seen:
            return
        self._seen = kept
        self._apply(kept or Credentials())

    def _apply(self, kept: Credentials) -> None:
        """Take over what is kept. Nothing is kept after a logout, perhaps in another process."""
        context = self.auth.context
        context.current_tokens = OAuthToken.model_validate(kept.tokens) if kept.tokens else None
        context.token_expiry_time = kept.expires_at
        if kept.metadata:
            context.oauth_metadata = OAuthMetadata.model_validate(kept.metadata)
        if kept.resource:
            context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(kept.resource)
            servers = context.protected_resource_metadata.authorization_servers
            context.auth_server_url = str(servers[0]) if servers else None
        if not self._client.client_id:
            client = OAuthClientInformationFull.model_validate(kept.client) if kept.client else None
            # A person signs in where the client is registered; at another address it registers again.
            addresses = {str(one) for one in (client.redirect_uris or ())} if client else set[str]()
            is_elsewhere = self._person is not None and self._person.redirect_url not in addresses
            context.client_info = None if is_elsewhere else client
        granted = set(str((kept.tokens or {}).get("scope") or "").split())
        if self._person is not None and not set(kept.wanted_scope.split()) <= granted:
            # The tokens are good, and not for what was wanted since.
            context.clear_tokens()
        self.auth.wanted_scope = kept.wanted_scope

    def expire(self) -> None:
        """Let the next request begin with a refresh."""
        self.auth.context.token_expiry_time = _EXPIRED

    async def forget_tokens(self) -> None:
        """The grant is gone: keep the registration, so that a new sign-in needs none. Call it with the lock held.

        A process that was stopped for long has lost the lock: what another has got meanwhile is taken over instead.
        """
        kept = await self._store.read(self._id)
        if kept is not None and self._seen is not None and kept.tokens != self._seen.tokens:
            await self.restore(is_forced=True)
            return
        self.auth.context.clear_tokens()
        await self.keep()

    async def want_scope(self, challenge: str) -> None:
        """Remember the scope that a server wants for a call, so that the next sign-in asks for it."""
        match = _SCOPE.search(challenge)
        wanted = sorted({*(match[1] if match else "").split(), *self.auth.wanted_scope.split()})
        self.auth.wanted_scope = " ".join(wanted)
        async with self.lock():
            kept = await self._store.read(self._id)
            if kept is not None and kept.wanted_scope != self.auth.wanted_scope:
                await self._store.write(self._id, replace(kept, wanted_scope=self.auth.wanted_scope))

    @property
    def login_hint(self) -> str:
        return login_hint(self._server)

    async def keep(self) -> None:
        context = self.auth.context
        self._seen = Credentials(
            _as_json(context.current_tokens),
            context.token_expiry_time,
            _as_json(context.client_info),
            _as_json(context.oauth_metadata),
            _as_json(context.protected_resource_metadata),
            self.auth.wanted_scope,
        )
        await self._store.write(self._id, self._seen)
        self._version = await self._store.version(self._id)

    def refuses_address(self, url: str) -> bool:
        return refuses_address(self._url, url)

    def note_answer(self, status: int, content: bytes) -> None:
        """Remember how an authorization server answered last, for `describe`."""
        try:
            code = cast("dict[str, Any]", loads(content.decode())).get("error")
        except (ValueError, AttributeError, RecursionError):
            code = None
        is_code = isinstance(code, str) and _ERROR_CODE.fullmatch(code)
        self._answer = f"status {status}, {code}" if is_code else f"status {status}"

    def describe(self, error: Exception) -> str:
        """Return what went wrong, with nothing that a server wrote: it may repeat a secret."""
        if type(error) is OAuthFlowError or isinstance(error, FerruleError):
            return " ".join(str(error).split())[:_MAX_MESSAGE]
        return f"the authorization server's answer was no token ({self._answer or type(error).__name__})"


def _early_seconds(lifetime: float) -> float:
    # Half of a short life, so that a token of a few seconds is not expired from the start.
    return min(_EARLY_SECONDS, lifetime / 2)


def refuses_address(own: str, other: str) -> bool:
    """Whether a server that is reached at `own` must not send us to `other`.

    Without TLS only a server that has none itself may, and only to its own host; to an address inside a network only
    one that is inside, too. What a name resolves to is not looked at.
    """
    here, there = urlsplit(own), urlsplit(other)
    if there.scheme not in ("http", "https") or not there.hostname:
        return True
    is_same_host = here.hostname == there.hostname
    if there.scheme == "http" and not (here.scheme == "http" and (is_same_host or _is_inside(there.hostname))):
        return True
    return _is_inside(there.hostname) and not (is_same_host or _is_inside(here.hostname or ""))


def _is_inside(host: str) -> bool:
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return host == "localhost" or host.endswith((".localhost", ".local", ".internal"))


class _Storage:
    """The SDK's view of the store: it writes, and `SignIn.restore` reads."""

    def __init__(self, sign_in: SignIn) -> None:
        self._sign_in = sign_in

    async def get_tokens(self) -> OAuthToken | None:
        await self._sign_in.restore()
        return self._sign_in.auth.context.current_tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        context = self._sign_in.auth.context
        if context.token_expiry_time is not None:
            lifetime = context.token_expiry_time - time.time()
            context.token_expiry_time -= _early_seconds(lifetime)
        await self._sign_in.keep()

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._sign_in.auth.context.client_info

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        await self._sign_in.keep()


def _provider(transport: HttpTransport, storage: _Storage, person: Person | None) -> _OwnScope:
    client, url = transport.oauth, transport.url
    if client.signs_in_itself:
        return _machine_provider(client, url, storage)
    redirect_url = person.redirect_url if person else "http://127.0.0.1/callback"

    async def show(address: str) -> None:
        if person is None:
            raise OAuthFlowError("nobody is here to sign in")
        if refuses_address(url, address):
            raise OAuthFlowError(f"the server names an address that is not allowed ({urlsplit(address).hostname})")
        await person.show(address)

    async def answer() -> AuthorizationCodeResult:
        assert person is not None
        redirect = await person.answer()
        return AuthorizationCodeResult(code=redirect.code, state=redirect.state, iss=redirect.issuer)

    metadata = OAuthClientMetadata.model_validate(
        {
            "redirect_uris": [redirect_url],
            "client_name": CLIENT_NAME,
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "scope": client.scope or None,
        }
    )
    provider = _Provider(url, metadata, storage, show, answer, client.metadata_url or None)
    provider.own_scope = client.scope
    if client.client_id:
        provider.context.client_info = OAuthClientInformationFull.model_validate(
            {
                "client_id": client.client_id,
                "client_secret": client.client_secret or None,
                "redirect_uris": [redirect_url],
                # Every authorization server that issues secrets has to take this one (RFC 6749, 2.3.1).
                "token_endpoint_auth_method": "client_secret_basic" if client.client_secret else "none",
                "issuer": client.issuer or None,
            }
        )
    return provider


class _OwnScope(OAuthClientProvider):
    """Asks for the scope that was configured, and for what was wanted since; the SDK asks for what the server lists."""

    own_scope = ""
    wanted_scope = ""

    async def _perform_authorization(self) -> Any:
        own, asked = self.own_scope.split(), (self.context.client_metadata.scope or "").split()
        scope = " ".join(dict.fromkeys((*(own or asked), *self.wanted_scope.split())))
        self.context.client_metadata.scope = scope or None
        return await super()._perform_authorization()


class _Provider(_OwnScope, OAuthClientProvider):
    """The SDK's provider, which does not forget what it was given when it begins."""

    async def _initialize(self) -> None:
        client = self.context.client_info
        await super()._initialize()
        self.context.client_info = self.context.client_info or client


class _SecretProvider(_OwnScope, ClientCredentialsOAuthProvider):
    """A client that signs in by itself, with a secret."""


class _KeyProvider(_OwnScope, PrivateKeyJWTOAuthProvider):
    """A client that signs in by itself, with a key, or with what its platform says of it."""


class _BearerProvider(_SecretProvider):
    """A workload whose platform vouches for it: its assertion is the grant (RFC 7523, 2.1).

    With an identity provider the assertion is an ID token, and the grant is what that provider gives for it (RFC 8693;
    enterprise-managed authorization of MCP). It is asked anew for each token, so that it can say no.
    """

    assertion_file = ""
    identity_provider: IdentityProvider | None = None
    _token_request: Any = None

    async def async_auth_flow(self, request: Any) -> AsyncGenerator[Any, Any]:
        flow = super().async_auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                if outgoing is self._token_request and self.identity_provider is not None:
                    answer = yield self._exchange_request(outgoing, self.identity_provider)
                    outgoing = _form_request(outgoing, {**_form_of(outgoing), "assertion": _grant_of(answer)})
                outgoing = await flow.asend((yield outgoing))
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    async def _exchange_token_client_credentials(self) -> Any:
        # The SDK checks the issuer, finds the endpoint and adds what authenticates the client.
        request = await super()._exchange_token_client_credentials()
        fields = _form_of(request)
        fields |= {"grant_type": JWT_BEARER_GRANT_TYPE, "assertion": await _read_assertion(self.assertion_file)}
        fields.setdefault("client_id", str(self.context.client_info and self.context.client_info.client_id))
        self._token_request = _form_request(request, fields)
        return self._token_request

    def _exchange_request(self, token_request: Any, provider: IdentityProvider) -> Any:
        """Ask for a grant that only this authorization server takes, for only this MCP server."""
        metadata, scope = self.context.oauth_metadata, _form_of(token_request).get("scope")
        fields = {
            "grant_type": _TOKEN_EXCHANGE,
            "requested_token_type": _GRANT_TOKEN,
            "audience": self._issuer or str(metadata.issuer if metadata else ""),
            "resource": self.context.get_resource_url(),
            "subject_token": _form_of(token_request)["assertion"],
            "subject_token_type": _ID_TOKEN,
            "client_id": provider.client_id,
        }
        fields |= {"scope": scope} if scope else {}
        fields |= {"client_secret": provider.client_secret} if provider.client_secret else {}
        headers = {"content-type": token_request.headers["content-type"]}
        return type(token_request)("POST", provider.token_url, data=fields, headers=headers)


def _form_of(request: Any) -> dict[str, str]:
    return dict(parse_qsl(request.content.decode()))


def _form_request(request: Any, fields: Mapping[str, str]) -> Any:
    """Return the same request with another form."""
    headers = {name: value for name, value in request.headers.items() if name.lower() != "content-length"}
    return type(request)("POST", request.url, data=fields, headers=headers)


def _grant_of(answer: Any) -> str:
    """Return the grant in an identity provider's answer. What it wrote is not repeated in an error."""
    if answer.status_code != 200:
        raise OAuthFlowError(f"the identity provider gave no grant (status {answer.status_code})")
    try:
        document: object = loads(answer.text)
    except (ValueError, RecursionError):
        document = None
    fields = cast("dict[str, object]", document) if isinstance(document, dict) else {}
    grant = fields.get("access_token")
    # A token of another type would be one for the identity provider's own services, and not for this server.
    if fields.get("issued_token_type") != _GRANT_TOKEN or not isinstance(grant, str) or not grant:
        raise OAuthFlowError("the identity provider's answer has no grant for this server")
    return grant


def _machine_provider(client: OAuthClient, url: str, storage: _Storage) -> _OwnScope:
    scope, issuer = client.scope or None, client.issuer or None
    provider: _OwnScope
    if client.is_bearer:
        provider = _BearerProvider(url, storage, client.client_id, client.client_secret, scope=scope, issuer=issuer)
        provider.assertion_file = client.assertion_file
        provider.identity_provider = client.identity_provider
    elif client.assertion_file:

        async def assertion(audience: str) -> str:
            return await _read_assertion(client.assertion_file)

        provider = _KeyProvider(url, storage, client.client_id, assertion, scope, issuer)
    elif client.private_key:
        assertions = SignedJWTParameters(
            issuer=client.client_id,
            subject=client.client_id,
            signing_key=client.private_key,
            signing_algorithm=client.algorithm,
        )
        provider = _KeyProvider(url, storage, client.client_id, assertions.create_assertion_provider(), scope, issuer)
    else:
        provider = _SecretProvider(url, storage, client.client_id, client.client_secret, scope=scope, issuer=issuer)
    provider.own_scope = client.scope
    return provider


async def _read_assertion(path: str) -> str:
    """Read the file anew for each token: its platform replaces it before it expires."""
    try:
        text = (await asyncio.to_thread(Path(path).read_text, encoding="utf-8")).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise OAuthFlowError(f"the assertion file {path} cannot be read") from error
    if not text:
        raise OAuthFlowError(f"the assertion file {path} is empty")
    return text


def _as_json(value: Any) -> Mapping[str, Any] | None:
    return None if value is None else value.model_dump(mode="json", exclude_none=True)
