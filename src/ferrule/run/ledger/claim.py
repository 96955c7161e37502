"""Claim: exactly what is to run, for whom, as one hash. Independent of the database.

The bytes that are hashed, shown to people and run are the same: the canonical JSON of the arguments. The tool gets the
values of those bytes, not of the model's own text.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass, field
from typing import cast

from ferrule.core.call import ToolCall
from ferrule.core.context import Principal
from ferrule.core.json_text import canonical, loads
from ferrule.core.tool import ToolDefinition
from ferrule.errors import LedgerError

_SURROGATE = re.compile("[\ud800-\udfff]")
# Postgres stores no NUL, and neither database half a surrogate pair; other control characters mislead readers.
_NAME = re.compile("[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,256}")
_BINDING_VERSION = "ferrule.claim.1"


@dataclass(frozen=True, slots=True)
class Claim:
    """One call in full. Two claims have the same `binding` only if every field is the same."""

    conversation: str
    call_id: str
    tenant: str
    principal: str
    tool: str
    tool_fingerprint: str
    arguments: bytes
    arguments_sha256: str = field(init=False, compare=False, repr=False)
    binding: str = field(init=False, compare=False, repr=False)
    """The hash that an approval is bound to."""
    is_canonical: bool = field(default=False, init=False, compare=False, repr=False)
    """Whether the arguments are known to be the canonical bytes of an object, because they were made so here."""

    def __post_init__(self) -> None:
        arguments = sha256(self.arguments)
        whose = [self.tenant, self.principal, self.conversation, self.call_id]
        what = [self.tool, self.tool_fingerprint, arguments]
        object.__setattr__(self, "arguments_sha256", arguments)
        object.__setattr__(self, "binding", sha256(canonical_bytes([_BINDING_VERSION, *whose, *what])))

    @staticmethod
    def of(conversation: str, principal: Principal, call: ToolCall, tool: ToolDefinition) -> Claim:
        """Return the claim for a call, with the tool as it is defined now."""
        if not call.complete or call.name != tool.name:
            raise LedgerError(f"the call {call.id!r} is not a complete call of {tool.name!r}", code="bad_request")
        try:
            arguments = canonical_bytes(call.arguments)
        except ValueError as fault:
            raise LedgerError(f"the arguments of {call.id!r} are not JSON: {fault}", code="bad_request") from None
        whose = (conversation, call.id, principal.tenant, principal.name)
        claim = Claim(*whose, tool.name, tool.fingerprint, arguments)
        object.__setattr__(claim, "is_canonical", True)
        return claim


def canonical_bytes(value: object) -> bytes:
    """Return the canonical JSON of a value as UTF-8. Half a surrogate pair, which has no UTF-8, is escaped."""
    return _canonical_text(value).encode()


def _canonical_text(value: object) -> str:
    text = canonical(value)
    # Only other texts can contain a surrogate, and few texts are looked through.
    return text if text.isascii() else _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def encode_json(value: object) -> str:
    """Return the JSON text of a value, for a database."""
    try:
        return _canonical_text(value)
    except (TypeError, ValueError) as fault:
        raise LedgerError(f"a ledger stores only JSON: {fault}", code="not_json") from None


def require_name(text: str, what: str) -> str:
    """Return the text if it can be an id or a name; otherwise raise."""
    if not _NAME.fullmatch(text):
        raise LedgerError(
            f"{text[:40]!r} cannot be {what}",
            code="bad_name",
            hint="Use 1 to 256 characters and no control characters.",
        )
    return text


def require_canonical(data: bytes) -> bytes:
    """Return the bytes if they are the canonical JSON of an object: two spellings would need two approvals."""
    try:
        value = loads(data.decode())
        is_canonical = isinstance(value, dict) and canonical_bytes(cast("object", value)) == data
    except ValueError:
        is_canonical = False
    if not is_canonical:
        raise LedgerError("the arguments are not the canonical bytes of a JSON object", code="not_canonical")
    return data


def new_approval_id() -> str:
    """Return a random id, because anyone who guesses one could decide on the approval."""
    return secrets.token_hex(16)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
