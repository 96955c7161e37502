"""The view of an error that callers get, in every API: its code, a message, what to do next, and the field at fault.

An engine, a database or a bus writes addresses, quotations of prompts and sometimes keys into its messages. The
operator reads them in the gateway's log; a caller reads the message of the table below, and the request ID by which the
operator finds the line. Errors that are not in the table are in Ferrule's own words, and are passed on as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ferrule.errors import (
    BusError,
    BusUnavailableError,
    EngineAccessError,
    EngineError,
    EngineModelError,
    EngineRateLimitError,
    EngineRequestError,
    EngineTimeoutError,
    EngineUnavailableError,
    FerruleError,
    InvalidResponseError,
    LedgerUnavailableError,
    NoValidCallError,
    UnsupportedError,
)


@dataclass(frozen=True, slots=True)
class CallerError:
    """An error as a caller sees it."""

    code: str
    message: str
    hint: str
    param: str = ""

    @property
    def text(self) -> str:
        """The message and the hint, for APIs that have one field for both."""
        return f"{self.message.rstrip('.')}. {self.hint}" if self.hint else self.message


_IN_LOG = "The gateway's log has the details."
_OWN_WORDS = None
# The nearest class of an error decides. `_OWN_WORDS`: Ferrule wrote the message for the caller.
_BY_CLASS: Mapping[type[FerruleError], tuple[str, str] | None] = {
    FerruleError: _OWN_WORDS,
    LedgerUnavailableError: ("the ledger cannot be reached", "Retry later."),
    BusError: ("the bus failed", _IN_LOG),
    BusUnavailableError: ("the bus cannot be reached", "Retry later."),
    EngineError: ("the engine failed", _IN_LOG),
    EngineAccessError: ("the engine refuses the gateway's credentials", f"A retry does not help. {_IN_LOG}"),
    EngineModelError: ("the engine does not have this model", f"A retry does not help. {_IN_LOG}"),
    EngineRequestError: ("the engine rejects the request", f"Check its parameters and its length. {_IN_LOG}"),
    EngineRateLimitError: ("the engine accepts no more requests at the moment", "Retry later."),
    EngineUnavailableError: ("the engine cannot be reached or is busy", "Retry later."),
    EngineTimeoutError: ("the answer took too long", "Request less, or try again."),
    InvalidResponseError: _OWN_WORDS,
    NoValidCallError: _OWN_WORDS,
    UnsupportedError: _OWN_WORDS,
}
TOO_LONG = "context_length_exceeded"
# Codes that say more than the class.
_BY_CODE: Mapping[str, tuple[str, str]] = {
    # "connection lost": inside a stream there is no status, and agents decide by such words whether to ask again.
    "broken_off": ("connection lost: the engine's answer broke off", "The answer is incomplete."),
    TOO_LONG: ("the prompt is longer than the model's context", "Send less."),
    "engine_refused": ("the engine refused the request", _IN_LOG),
    "given_up": ("too many processes have stopped while they ran this response", "Request less."),
    "ledger_damaged": ("the ledger failed", _IN_LOG),
}


def hides_details(error: FerruleError) -> bool:
    """Whether the message of an error is for the operator and not for a caller."""
    return _texts(error) is not None


def caller_error(error: FerruleError) -> CallerError:
    """Return the view of an error that callers get."""
    texts = _texts(error)
    param = error.param or getattr(error, "path", "")
    if texts is None:
        return CallerError(error.code, error.message, error.hint, param)
    message, hint = texts
    # An engine may set any code on an instance.
    code = error.code if error.code in _BY_CODE else type(error).code
    return CallerError(code, f"{message} (request ID {error.request_id})" if error.request_id else message, hint, param)


def _texts(error: FerruleError) -> tuple[str, str] | None:
    by_class = next(_BY_CLASS[kind] for kind in type(error).__mro__ if kind in _BY_CLASS)
    if by_class is None and error.code != "ledger_damaged":
        return None
    return _BY_CODE.get(error.code, by_class)
