"""An error as the body that the clients of both of OpenAI's APIs read."""

from __future__ import annotations

from typing import Any

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
    """What a client of the API reads of an error; sent in the middle of a stream, it makes the client raise."""
    kind = _ERROR_TYPES.get(error.status, "invalid_request_error" if error.status < 500 else "server_error")
    words = f"{error.message} {error.hint}".strip()
    param = getattr(error, "path", None) or None
    return {"error": {"message": words, "type": kind, "param": param, "code": error.code}}
