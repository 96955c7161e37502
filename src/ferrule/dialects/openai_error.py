"""Error bodies for both of OpenAI's APIs."""

from __future__ import annotations

from typing import Any

from ferrule.dialects.caller_error import caller_error
from ferrule.errors import FerruleError

_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "invalid_request_error",
    422: "invalid_request_error",
    429: "rate_limit_error",
}


def error_body(error: FerruleError) -> dict[str, Any]:
    """Return the body of an error. Sent in the middle of a stream, it makes OpenAI's client raise."""
    kind = _ERROR_TYPES.get(error.status, "invalid_request_error" if error.status < 500 else "server_error")
    shown = caller_error(error)
    return {"error": {"message": shown.text, "type": kind, "param": shown.param or None, "code": shown.code}}
