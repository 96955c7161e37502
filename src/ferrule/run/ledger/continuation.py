"""Continuation and WebhookDelivery: what follows a decision on an approval. Values only; see `continuations`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

DUE, DONE, FAILED, DELIVERED = "due", "done", "failed", "delivered"


@dataclass(frozen=True, slots=True)
class Continuation:
    """What follows a decision. `error` is why it could not be done, or not yet: a code and a message."""

    conversation: str
    tenant: str
    principal: str
    generation: int
    due_at: float
    attempts: int
    status: str
    error_code: str
    error_message: str

    @property
    def webhook_id(self) -> str:
        return f"msg_{hashlib.sha256(f'{self.conversation}/{self.generation}'.encode()).hexdigest()[:32]}"


@dataclass(frozen=True, slots=True)
class WebhookDelivery:
    """A webhook to send. `body` is sent to the letter in every attempt."""

    id: str
    conversation: str
    body: str
    created: float
    due_at: float
    attempts: int
    status: str
