"""OpenApi: the operations of an OpenAPI document as tools, called over HTTP. The only source that uses aiohttp.

Requests go to one server only. A redirect is followed for reads, and only to the same server: another one would get the
key. A call with side effects is sent once. If its connection was refused, it did not happen; if it broke later, nobody
knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urljoin, urlsplit

from ferrule.core.context import CallContext
from ferrule.core.json_text import dumps, loads
from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError
from ferrule.sources.openapi.document import Document
from ferrule.sources.openapi.http_request import HttpRequest, write_request
from ferrule.sources.openapi.operations import Operation, operations_of
from ferrule.sources.source import Source, run_with_timeout
from ferrule.sources.status import SourceStatus, Trust

if TYPE_CHECKING:
    import aiohttp

MAX_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_READS = ("GET", "HEAD")
_HIDDEN = "***"
_MIN_SECRET_LENGTH = 6


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key for an API: the header or query parameter that carries it, and its text.

    Example:
        ApiKey("Bearer abc", header="authorization")
        ApiKey("abc", query="api_key")
    """

    value: str = field(repr=False)
    header: str = ""
    query: str = ""

    def __post_init__(self) -> None:
        if bool(self.header) == bool(self.query):
            raise DefinitionError(
                "an API key needs either a header or a query parameter", hint='Write ApiKey(key, header="x-api-key").'
            )

    @property
    def secrets(self) -> tuple[str, ...]:
        """How the key may occur in a text, the longest first: with and without the word before it, as in `Bearer KEY`.

        Each also as it is written into a URL or into JSON.
        """
        plain = {self.value, self.value.rpartition(" ")[2]}
        written = plain | {quote(one, safe="") for one in plain} | {dumps(one)[1:-1] for one in plain}
        return tuple(sorted((one for one in written if len(one) >= _MIN_SECRET_LENGTH), key=len, reverse=True))


class OpenApi(Source):
    """The operations of a document. `server` replaces the first server that the document names.

    Every tool name begins with `prefix`. GET and HEAD operations read; the others have side effects and need approval.
    Answers larger than `max_bytes` are errors.
    """

    kind = "openapi"

    def __init__(
        self,
        document: Document,
        *,
        server: str = "",
        key: ApiKey | None = None,
        prefix: str = "",
        timeout_seconds: float = 30.0,
        max_bytes: int = 1024 * 1024,
        id: str = "openapi",
    ) -> None:
        self.id = id
        self.server = checked_server(server or first_server(document))
        self.timeout_seconds = timeout_seconds
        self.max_bytes = max_bytes
        self._key = key
        self._secrets = key.secrets if key is not None else ()
        found = operations_of(document, prefix, () if key is None else (key.header or key.query,))
        self._operations = {one.tool.name: one for one in found.operations}
        self._notices = found.notices
        self._session: aiohttp.ClientSession | None = None

    @property
    def operations(self) -> Mapping[str, Operation]:
        """The operations by the name of their tool."""
        return self._operations

    @property
    def notices(self) -> tuple[str, ...]:
        return self._notices

    @property
    def statuses(self) -> tuple[SourceStatus, ...]:
        return (SourceStatus(self.id, self.kind, Trust.UNTRUSTED, tools=tuple(self._operations)),)

    async def tools(self) -> tuple[ToolDefinition, ...]:
        return tuple(one.tool for one in self._operations.values())

    async def open(self) -> None:
        _import_aiohttp()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        operation = self._operations.get(name)
        if operation is None:
            return NotDelivered(f"there is no tool {name!r:.80}", code="bad_request")
        try:
            request = write_request(self.server, operation, arguments)
        except DefinitionError as refusal:
            return Answered(f"invalid_arguments: {refusal.message}", is_error=True, code="bad_request")
        has_side_effects = operation.tool.side_effects
        work = self._send(request, context.call_id, has_side_effects=has_side_effects)
        return await run_with_timeout(self.timeout_seconds, work, has_side_effects=has_side_effects)

    async def _send(self, request: HttpRequest, call_id: str, *, has_side_effects: bool) -> Outcome:
        aiohttp = _import_aiohttp()
        headers = {"accept": "application/json, text/*;q=0.5", **request.headers}
        if has_side_effects and call_id.isascii() and call_id.isprintable():
            # An API that knows this header does not repeat an effect, whatever happens between us.
            headers["idempotency-key"] = call_id
        url = request.url
        try:
            for _ in range(MAX_REDIRECTS + 1):
                async with self._open_session().request(
                    request.method,
                    _encoded(self._with_key(url)),
                    headers={**headers, **self._key_headers},
                    data=request.body,
                    allow_redirects=False,
                ) as response:
                    location = response.headers.get("location", "")
                    if response.status not in _REDIRECTS or not location:
                        return await self._answer(response)
                    url = urljoin(url, location)
                    if request.method not in _READS or _origin(url) != _origin(self.server):
                        return Answered(
                            f"the server redirects to another address ({_origin(url)}), which is not followed",
                            is_error=True,
                            code="redirected",
                        )
            return Answered("the server redirects without end", is_error=True, code="redirected")
        except aiohttp.ClientConnectorError as problem:
            return NotDelivered(f"{_origin(self.server)} cannot be reached: {self._hide(str(problem))[:200]}")
        except (aiohttp.ClientError, ValueError) as problem:
            reason = f"the connection to {_origin(self.server)} failed: {self._hide(str(problem))[:200]}"
            return Unknown(reason) if has_side_effects else Answered(reason, is_error=True, code="internal_error")

    async def _answer(self, response: aiohttp.ClientResponse) -> Outcome:
        """Read an answer. One that is too long is an error and not a part of an answer."""
        pieces: list[bytes] = []
        size = 0
        async for piece in response.content.iter_chunked(64 * 1024):
            size += len(piece)
            if size > self.max_bytes:
                message = f"the answer (status {response.status}) is larger than {self.max_bytes:,} bytes"
                return Answered(f"{message}; ask for less", is_error=True, code="too_large")
            pieces.append(piece)
        content = self._content(response.content_type, b"".join(pieces))
        if response.status < 400:
            return Answered(content)
        return Answered({"status": response.status, "body": content}, is_error=True, code="http_error")

    def _content(self, content_type: str, body: bytes) -> Any:
        if not body:
            return ""
        is_json = content_type == "application/json" or content_type.endswith("+json")
        if not is_json and not content_type.startswith("text/"):
            return f"({content_type}, {len(body):,} bytes)"
        text = self._hide(body.decode("utf-8", "replace"))
        if is_json:
            try:
                return loads(text)
            except (ValueError, RecursionError):
                # Called JSON by a server that then writes something else.
                return text
        return text

    @property
    def _key_headers(self) -> dict[str, str]:
        return {self._key.header: self._key.value} if self._key is not None and self._key.header else {}

    def _with_key(self, url: str) -> str:
        if self._key is None or not self._key.query:
            return url
        return f"{url}{'&' if '?' in url else '?'}{quote(self._key.query, safe='')}={quote(self._key.value, safe='')}"

    def _hide(self, text: str) -> str:
        """Remove the key from a text of the server: a model and a log must not read it."""
        for secret in self._secrets:
            text = text.replace(secret, _HIDDEN)
        return text

    def _open_session(self) -> aiohttp.ClientSession:
        session = self._session
        if session is None:
            aiohttp = _import_aiohttp()
            # The time limit is the call's. Cookies of one call must not reach another's.
            no_limit, no_cookies = aiohttp.ClientTimeout(total=None), aiohttp.DummyCookieJar()
            session = cast("aiohttp.ClientSession", aiohttp.ClientSession(timeout=no_limit, cookie_jar=no_cookies))
            # aiohttp sends GET, PUT and DELETE a second time when a connection breaks, and has no public switch for it.
            session._retry_connection = False  # pyright: ignore[reportPrivateUsage]
            self._session = session
        return session


def first_server(document: Document) -> str:
    """Return the first server of a document, with the defaults of its variables; empty if there is none."""
    servers = document.get("servers")
    listed = cast("list[Any]", servers if isinstance(servers, list) else [])
    if not listed or not isinstance(listed[0], Mapping):
        return ""
    fields = cast("Mapping[str, Any]", listed[0])
    url = str(fields.get("url", ""))
    for name, variable in cast("Mapping[str, Any]", fields.get("variables") or {}).items():
        url = url.replace(f"{{{name}}}", str(cast("Mapping[str, Any]", variable).get("default", "")))
    return url


def checked_server(url: str) -> str:
    """Return the URL of a server if requests can be sent to it."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise DefinitionError(
            f"{url!r:.120} is not the address of a server", hint="Name one: server = https://api.example.com/v1"
        )
    return url


def _origin(url: str) -> str:
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    return f"{parts.scheme}://{parts.hostname}:{port}"


def _encoded(url: str) -> Any:
    """Return the URL as it is: it is escaped already, and must not be normalized."""
    import yarl

    return yarl.URL(url, encoded=True)


def _import_aiohttp() -> Any:
    try:
        import aiohttp
    except ImportError as missing:
        raise DefinitionError(
            "tools of an OpenAPI document need aiohttp", code="missing_package", hint='pip install "ferrule[openapi]"'
        ) from missing
    return aiohttp
