"""WebhookSender: tells the caller that a conversation has ended, by HTTP, signed and retried.

The form is that of Standard Webhooks: the headers `webhook-id`, `webhook-timestamp` and `webhook-signature`, which is
`v1,` and the base64 of HMAC-SHA256 over `id.timestamp.body`. The id is the same in every attempt, so that a receiver
can recognize a repetition. The body names the conversation and holds none of its text.

What is to be sent is in the ledger: a process that dies loses nothing, and another one sends it.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import http.client
import time
from urllib.parse import urlsplit

from ferrule.run.ledger.continuation import DELIVERED, FAILED, WebhookDelivery
from ferrule.server.gateway import Gateway

_BATCH = 8
_SEND_SECONDS = 15.0
_CLAIM_SECONDS = 2 * _SEND_SECONDS
"""How long an attempt belongs to this process. After that another one may repeat it."""
_MAX_PAUSE_SECONDS = 3600.0
_MAX_ATTEMPTS = 20
PREFIX = "whsec_"


class WebhookSender:
    """`send_due` sends what is due. Nothing is sent without a URL."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._url = gateway.config.server.webhook_url
        self._secret = secret_bytes(gateway.config.server.webhook_secret)

    async def send_due(self) -> None:
        if not self._url:
            return
        now = time.time()
        due = await self._gateway.ledger.claim_deliveries(_BATCH, until=now + _CLAIM_SECONDS, now=now)
        await asyncio.gather(*map(self._send, due))

    async def _send(self, delivery: WebhookDelivery) -> None:
        status = await asyncio.to_thread(
            post, self._url, *signed(delivery.id, delivery.body, self._secret, time.time())
        )
        is_delivered = 200 <= status < 300
        attempts = delivery.attempts + 1
        self._gateway.telemetry.log.emit(
            "webhook", id=delivery.id, status=status, outcome="ok" if is_delivered else "failed"
        )
        if is_delivered or attempts >= _MAX_ATTEMPTS:
            await self._gateway.ledger.end_delivery(delivery.id, DELIVERED if is_delivered else FAILED)
            return
        first = self._gateway.config.server.webhook_retry_seconds
        pause = min(first * 2 ** (attempts - 1), _MAX_PAUSE_SECONDS)
        await self._gateway.ledger.postpone_delivery(delivery.id, time.time() + pause)


def secret_bytes(secret: str) -> bytes:
    """Return the key of a secret: base64 after `whsec_`. Raises `ValueError` if it is no such secret."""
    return base64.b64decode(secret.removeprefix(PREFIX), validate=True)


def signed(id: str, body: str, secret: bytes, now: float) -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers of one attempt."""
    data, timestamp = body.encode(), str(int(now))
    digest = hmac.new(secret, b".".join([id.encode(), timestamp.encode(), data]), hashlib.sha256).digest()
    return data, {
        "content-type": "application/json",
        "webhook-id": id,
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def post(url: str, body: bytes, headers: dict[str, str]) -> int:
    """Send one request and return its status; 0 if there was no answer. Redirects are not followed."""
    parts = urlsplit(url)
    connect = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = connect(parts.netloc.rpartition("@")[2], timeout=_SEND_SECONDS)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("POST", target, body, headers)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()
