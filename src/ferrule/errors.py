"""Every error that Ferrule raises on purpose, in one tree.

    FerruleError
    ├── DefinitionError       a tool, a choice or a request contradicts itself
    ├── SchemaError           a JSON Schema was not admitted
    ├── AuthorityError        the caller may not do this
    ├── RequestError          what a client of the gateway did, before anybody looked at what he asks
    │   ├── UnauthenticatedError     it has no key, or one that nobody knows
    │   ├── HostError                it came under a name or from a page that is not allowed
    │   ├── NotFoundError            there is nothing under that address or id, or nothing that the caller may see
    │   ├── TooLargeError            it is longer than it may be
    │   │   └── HeadTooLargeError    its address and headers are
    │   ├── TooSlowError             it did not arrive in time
    │   └── TooManyError             the caller has asked too often, or has too much under way
    ├── DrainingError         the gateway is being stopped
    ├── BudgetError           a limit of the loop is used up
    ├── ToolError             a tool says what went wrong, in words meant for the model
    ├── LedgerError           the ledger does not allow this, or does not know what is named
    │   ├── FencedError              another owner holds the conversation now
    │   ├── ApprovalError            there is no leave for exactly this call; the code says why
    │   └── LedgerUnavailableError   the database cannot be reached or is busy
    ├── BusError              the bus carried what no peer of ours writes
    │   └── BusUnavailableError      it cannot be reached, or does not let us in
    ├── EngineError           an engine failed, or said something that no engine of its kind says
    │   ├── EngineUnavailableError   it cannot be reached or is overloaded
    │   ├── EngineTimeoutError       it took too long
    │   └── UnsupportedError         it cannot do what the request asks, said before anything is generated
    └── FormatError
        ├── UnknownFormatError    no format has that name
        ├── FormatConflictError   two formats claim one name or one template
        ├── TemplateError         a chat template is broken, refuses, or asks for more than it may use
        └── UnrenderableError     a reply holds something that the format has no spelling for

Each carries `code` (stable, for programs), `status` (what an HTTP server answers), `retryable` (whether the same
request may succeed later) and `hint` (what a person should do next). What a *model* does wrong is never an exception:
it comes out of the parser as a diagnostic.
"""

from __future__ import annotations

from typing import ClassVar


class FerruleError(Exception):
    """The root. Catch it to catch everything that Ferrule raises on purpose."""

    code: str = "internal_error"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False
    hint: str = ""

    def __init__(self, message: str, *, code: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        if code:
            self.code = code
        if hint:
            self.hint = hint
            self.add_note(f"hint: {hint}")


class DefinitionError(FerruleError):
    """A tool, a choice or a request contradicts itself."""

    code = "bad_request"
    status = 400


class SchemaError(FerruleError):
    """A JSON Schema was not admitted; `path` is a JSON pointer to the place."""

    code = "bad_schema"
    status = 400

    def __init__(self, message: str, *, code: str = "", hint: str = "", path: str = "") -> None:
        super().__init__(f"{path or '/'}: {message}" if path else message, code=code, hint=hint)
        self.path = path


class AuthorityError(FerruleError):
    """The caller may not do this."""

    code = "token_scope_insufficient"
    status = 403


class RequestError(FerruleError):
    """What a client of the gateway did, before anybody looked at what he asks."""

    code = "request_refused"
    status = 400


class UnauthenticatedError(RequestError):
    """There is no key, or one that nobody knows."""

    code = "unauthenticated"
    status = 401


class HostError(RequestError):
    """The request came under a name or from a page that is not allowed."""

    code = "host_refused"
    status = 403


class NotFoundError(RequestError):
    """There is nothing under that address or id, or nothing that this caller may see."""

    code = "not_found"
    status = 404


class TooSlowError(RequestError):
    """A request did not arrive in time."""

    code = "request_timeout"
    status = 408


class TooLargeError(RequestError):
    """A request is longer than it may be."""

    code = "request_too_large"
    status = 413


class HeadTooLargeError(TooLargeError):
    """The address and headers of a request are longer than they may be."""

    code = "head_too_large"
    status = 431


class TooManyError(RequestError):
    """The caller has asked too often, or has too much under way; `retry_after` is in seconds."""

    code = "too_many_requests"
    status = 429
    retryable = True

    def __init__(self, message: str, *, retry_after: float = 1.0, code: str = "", hint: str = "") -> None:
        super().__init__(message, code=code, hint=hint)
        self.retry_after = retry_after


class DrainingError(FerruleError):
    """The gateway is being stopped: it takes nothing new, and what took too long to end was cut off."""

    code = "draining"
    status = 503
    retryable = True
    retry_after = 1.0
    ends_connection = True
    """The next request on this connection must go elsewhere."""


class BudgetError(FerruleError):
    """A limit of the loop is used up."""

    code = "budget_exhausted"
    status = 429


class ToolError(FerruleError):
    """Raised by a tool: its message goes to the model as it is. Of any other error only the kind is told."""

    code = "tool_failed"


class LedgerError(FerruleError):
    """The ledger does not allow this, or does not know what is named."""

    code = "ledger_refused"
    status = 409


class FencedError(LedgerError):
    """Another owner holds the conversation now: whoever gets this must stop working on it."""

    code = "fenced"


class ApprovalError(LedgerError):
    """There is no leave for exactly this call; the code says why."""

    code = "approval_refused"
    status = 403


class LedgerUnavailableError(LedgerError):
    """The database cannot be reached or is busy. After a lost connection a write may have been made all the same."""

    code = "ledger_unavailable"
    status = 503
    retryable = True


class BusError(FerruleError):
    """The bus carried what no peer of ours writes."""

    code = "bus_failed"
    status = 502


class BusUnavailableError(BusError):
    """The bus cannot be reached, or does not let us in."""

    code = "bus_unavailable"
    status = 503
    retryable = True


class EngineError(FerruleError):
    """An engine failed, or said something that no engine of its kind says."""

    code = "engine_failed"
    status = 502


class EngineUnavailableError(EngineError):
    """An engine cannot be reached or is overloaded; nothing was generated."""

    code = "engine_unavailable"
    status = 503
    retryable = True


class EngineTimeoutError(EngineError):
    """An engine took too long."""

    code = "timeout"
    status = 504
    retryable = True


class UnsupportedError(EngineError):
    """An engine cannot do what the request asks, said before anything is generated."""

    code = "not_supported"
    status = 400


class FormatError(FerruleError):
    """Something about a wire format."""

    code = "bad_format"
    status = 400


class UnknownFormatError(FormatError):
    """No format has that name."""

    code = "unknown_format"


class FormatConflictError(FormatError):
    """Two formats claim one name or one template."""

    code = "format_conflict"


class TemplateError(FormatError):
    """A chat template is broken, refuses the conversation, or asks for more than it may use."""

    code = "bad_template"


class UnrenderableError(FormatError):
    """A reply holds something that the format has no spelling for; `where` names the part."""

    code = "unrenderable"

    def __init__(self, message: str, *, where: str, hint: str = "") -> None:
        super().__init__(f"{where}: {message}", hint=hint)
        self.where = where
