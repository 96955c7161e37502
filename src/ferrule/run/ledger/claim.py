"""Claim: exactly what would run, for whom, as one hash. No database here.

What is hashed, shown to people and run are the same bytes: the canonical text of the arguments. Whoever runs the call
parses those and not the model's own text.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import cast

from ferrule.core.call import ToolCall
from ferrule.core.context import Principal
from ferrule.core.json_text import canonical, loads
from ferrule.core.tool import ToolDefinition
from ferrule.errors import LedgerError

_SURROGATE = re.compile("[\ud800-\udfff]")
# Postgres keeps no NUL in a text and neither database half a surrogate pair; other control characters deceive readers.
_NAME = re.compile("[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,256}")
_BINDING_VERSION = "ferrule.claim.1"


@dataclass(frozen=True, slots=True)
class Claim:
    """One call in full. Two claims have one `binding` only where every field is the same."""

    conversation: str
    call_id: str
    tenant: str
    principal: str
    tool: str
    tool_fingerprint: str
    arguments: bytes

    @staticmethod
    def of(conversation: str, principal: Principal, call: ToolCall, tool: ToolDefinition) -> Claim:
        """The claim to run this call of this tool as it is defined now."""
        if not call.complete or call.name != tool.name:
            raise LedgerError(f"the call {call.id!r} is not a whole call of {tool.name!r}", code="bad_request")
        try:
            arguments = canonical_bytes(call.arguments)
        except ValueError as fault:
            raise LedgerError(f"the arguments of {call.id!r} are not JSON: {fault}", code="bad_request") from None
        return Claim(conversation, call.id, principal.tenant, principal.name, tool.name, tool.fingerprint, arguments)

    @property
    def arguments_sha256(self) -> str:
        return sha256(self.arguments)

    @property
    def binding(self) -> str:
        """What an approval is for."""
        whose = [self.tenant, self.principal, self.conversation, self.call_id]
        what = [self.tool, self.tool_fingerprint, self.arguments_sha256]
        return sha256(canonical_bytes([_BINDING_VERSION, *whose, *what]))


def canonical_bytes(value: object) -> bytes:
    """The one spelling of a JSON value, as UTF-8; half a surrogate pair, which has no UTF-8, as JSON's escape."""
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", canonical(value)).encode()


def kept_json(value: object) -> str:
    """The JSON text of a value, for a database."""
    try:
        return canonical_bytes(value).decode()
    except (TypeError, ValueError) as fault:
        raise LedgerError(f"only JSON is kept: {fault}", code="not_json") from None


def checked_name(text: str, what: str) -> str:
    """The text, where it can be an id or a name."""
    if not _NAME.fullmatch(text):
        raise LedgerError(
            f"{text[:40]!r} cannot be {what}", code="bad_name", hint="1 to 256 characters, none of them a control one."
        )
    return text


def checked_arguments(data: bytes) -> bytes:
    """The bytes, where they are the one spelling of a JSON object: two spellings would be two approvals."""
    try:
        value = loads(data.decode())
        is_canonical = isinstance(value, dict) and canonical_bytes(cast("object", value)) == data
    except ValueError:
        is_canonical = False
    if not is_canonical:
        raise LedgerError("the arguments are not the canonical bytes of a JSON object", code="not_canonical")
    return data


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
