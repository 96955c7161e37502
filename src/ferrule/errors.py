"""Every error that Ferrule raises on purpose, in one tree.

    FerruleError
    ├── DefinitionError       a tool, a choice or a request contradicts itself
    ├── SchemaError           a JSON Schema was not admitted
    ├── AuthorityError        the caller may not do this
    ├── RequestError          the gateway refused a request before it looked at its contents
    │   ├── UnauthenticatedError     the key is missing or unknown
    │   ├── IdentityUnavailableError   the keys of an identity provider cannot be fetched
    │   ├── HostError                the Host or Origin is not allowed
    │   ├── NotFoundError            nothing exists under that URL or id, or nothing that the caller may see
    │   ├── TooLargeError            the request is too large
    │   │   └── HeadTooLargeError    its URL and headers are too large
    │   ├── IdempotencyError         its Idempotency-Key is not valid, or was sent with another body
    │   ├── TooSlowError             the request did not arrive in time
    │   ├── QuotaStoreError          the server that counts quotas does not answer
    │   └── TooManyError             too many requests, or too many at the same time
    │       └── QuotaError               a quota is used up until its period ends
    ├── DrainingError         the gateway is shutting down
    ├── InterruptedAnswerError   an answer broke off after a tool with side effects was called
    ├── BudgetError           a limit of the loop is reached
    ├── ToolError             a tool reports an error to the model
    ├── HookError             a hook raised an error, took too long, or returned what it may not
    ├── LedgerError           the ledger refuses an operation, or does not know what it names
    │   ├── FencedError              another process owns the conversation now
    │   ├── ApprovalError            there is no approval for exactly this call; the code says why
    │   └── LedgerUnavailableError   the database cannot be reached or is busy
    ├── BusError              a message on the bus is not valid
    │   └── BusUnavailableError      the bus cannot be reached, or refuses the connection
    ├── EngineError           an engine failed, or its answer is not valid
    │   ├── EngineAccessError        it refuses the credentials that it was configured with
    │   ├── EngineModelError         it does not have the model that it was configured with
    │   ├── EngineRequestError       it rejects the request itself: too long, or a value that it does not take
    │   ├── EngineUnavailableError   it cannot be reached or is overloaded
    │   │   └── EngineRateLimitError     it accepts no more requests at the moment
    │   ├── EngineTimeoutError       it took too long
    │   ├── InvalidResponseError     the answer does not fit the response_type of its request
    │   ├── NoValidCallError         a call was required, and the model made none that fits
    │   └── UnsupportedError         it cannot do what the request asks; raised before anything is generated
    └── FormatError
        ├── UnknownFormatError    no format has that name
        ├── FormatConflictError   two formats claim one name or one template
        ├── TemplateError         a chat template is broken, refuses, or uses something that is not allowed
        └── UnrenderableError     the format cannot express a part of the reply

Each has `code` (stable, for programs), `status` (the HTTP status), `retryable` (whether the same request may succeed
later) and `hint` (what to do next). Errors of a *model* are never exceptions: the parser reports them as diagnostics.
The errors that most programs catch can also be imported from `ferrule`.

Example:
    from ferrule import load_engine
    from ferrule.errors import EngineUnavailableError, FerruleError

    try:
        engine = load_engine("llama:model.gguf")
    except EngineUnavailableError as error:
        print("try again later:", error.message)
    except FerruleError as error:
        print(error.code, error.message, error.hint)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

__all__ = [
    "ApprovalError",
    "AuthorityError",
    "BudgetError",
    "BusError",
    "BusUnavailableError",
    "DefinitionError",
    "DrainingError",
    "EngineAccessError",
    "EngineError",
    "EngineModelError",
    "EngineRateLimitError",
    "EngineRequestError",
    "EngineTimeoutError",
    "EngineUnavailableError",
    "FencedError",
    "FerruleError",
    "FormatConflictError",
    "FormatError",
    "HeadTooLargeError",
    "HookError",
    "HostError",
    "IdempotencyError",
    "IdentityUnavailableError",
    "InterruptedAnswerError",
    "LedgerError",
    "LedgerUnavailableError",
    "NoValidCallError",
    "NotFoundError",
    "QuotaError",
    "QuotaStoreError",
    "RequestError",
    "SchemaError",
    "TemplateError",
    "TooLargeError",
    "TooManyError",
    "TooSlowError",
    "ToolError",
    "UnauthenticatedError",
    "UnknownFormatError",
    "UnrenderableError",
    "UnsupportedError",
]


class FerruleError(Exception):
    """The base class. Catch it to catch everything that Ferrule raises on purpose.

    Example:
        try:
            turn = conversation.send_message_sync("hello")
        except FerruleError as error:
            print(error.code, error.message, error.hint)
    """

    code: str = "internal_error"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False
    hint: str = ""
    param: str = ""
    """The field of the request that is wrong, such as `messages[2].content`; empty if it is not about one."""
    token_counts: tuple[int, int] | None = None
    """Of a prompt that is too long: its tokens, and how many the model takes; None if the engine did not say."""
    request_id: str = ""
    """The gateway's request that failed with this error; empty outside of a gateway."""

    def __init__(self, message: str, *, code: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        if code:
            self.code = code
        if hint:
            self.hint = hint
            self.add_note(f"hint: {hint}")


class DefinitionError(FerruleError):
    """A tool, a choice or a request contradicts itself.

    Example:
        ToolDefinition("not a name")  # raises DefinitionError
    """

    code = "bad_request"
    status = 400

    def __init__(self, message: str, *, code: str = "", hint: str = "", param: str = "") -> None:
        super().__init__(message, code=code, hint=hint)
        self.param = param


class SchemaError(FerruleError):
    """A JSON Schema was refused; `path` is a JSON pointer to the place.

    Example:
        except SchemaError as error:
            print(error.path, error.message)
    """

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
    """The gateway refused a request before it looked at its contents."""

    code = "request_refused"
    status = 400


class UnauthenticatedError(RequestError):
    """The key is missing or unknown."""

    code = "unauthenticated"
    status = 401


class IdentityUnavailableError(RequestError):
    """The keys of an identity provider cannot be fetched, so its tokens cannot be checked."""

    code = "identity_unavailable"
    status = 503
    retryable = True


class HostError(RequestError):
    """The Host or Origin of the request is not allowed."""

    code = "host_refused"
    status = 403


class NotFoundError(RequestError):
    """Nothing exists under that URL or id, or nothing that this caller may see."""

    code = "not_found"
    status = 404


class IdempotencyError(RequestError):
    """The `Idempotency-Key` of the request was sent before, with another body."""

    code = "idempotency_key_reused"
    status = 422


class TooSlowError(RequestError):
    """The request did not arrive in time."""

    code = "request_timeout"
    status = 408


class TooLargeError(RequestError):
    """The request is too large."""

    code = "request_too_large"
    status = 413


class HeadTooLargeError(TooLargeError):
    """The URL and headers of the request are too large."""

    code = "head_too_large"
    status = 431


class TooManyError(RequestError):
    """Too many requests of one caller, or too many at the same time; `retry_after` is in seconds."""

    code = "too_many_requests"
    status = 429
    retryable = True

    def __init__(self, message: str, *, retry_after: float = 1.0, code: str = "", hint: str = "") -> None:
        super().__init__(message, code=code, hint=hint)
        self.retry_after = retry_after


class QuotaError(TooManyError):
    """A quota is used up until its period ends; `retry_after` says when. `headers` are those of the response."""

    code = "quota_exceeded"

    def __init__(
        self,
        message: str,
        *,
        retry_after: float = 60.0,
        headers: Mapping[str, str] | None = None,
        code: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(message, retry_after=retry_after, code=code, hint=hint)
        self.headers = headers or {}


class QuotaStoreError(RequestError):
    """The server that counts quotas for all processes does not answer."""

    code = "quota_store_unavailable"
    status = 503
    retryable = True
    retry_after = 1.0


class DrainingError(FerruleError):
    """The gateway is shutting down: it accepts no new requests, and those that took too long were aborted."""

    code = "draining"
    status = 503
    retryable = True
    retry_after = 1.0
    ends_connection = True
    """The client must open a new connection for its next request."""


class InterruptedAnswerError(FerruleError):
    """An answer broke off after a tool with side effects was called, or its approval requested.

    The status is one that no common client retries by itself: a request that begins anew would call the tool again.
    `conversation` is the one to resume.
    """

    code = "interrupted_after_effect"
    status = 424

    def __init__(self, message: str, *, conversation: str, code: str = "", hint: str = "") -> None:
        super().__init__(message, code=code, hint=hint)
        self.conversation = conversation


class BudgetError(FerruleError):
    """A limit of the loop is reached."""

    code = "budget_exhausted"
    status = 429


class ToolError(FerruleError):
    """Raised by a tool: the model sees its message. For any other exception it sees only the type.

    Example:
        @tool
        def get_weather(city: str) -> str:
            if city not in CITIES:
                raise ToolError(f"unknown city: {city}")
            return CITIES[city]
    """

    code = "tool_failed"


class HookError(FerruleError):
    """A hook raised an error, took too long, or returned what it may not return; `hook` is its name.

    Example:
        except HookError as error:
            print(error.hook, error.message, error.__cause__)
    """

    code = "hook_failed"

    def __init__(self, message: str, *, hook: str, code: str = "", hint: str = "") -> None:
        super().__init__(message, code=code, hint=hint)
        self.hook = hook


class LedgerError(FerruleError):
    """The ledger refuses an operation, or does not know what it names."""

    code = "ledger_refused"
    status = 409


class FencedError(LedgerError):
    """Another process owns the conversation now. Stop working on it."""

    code = "fenced"


class ApprovalError(LedgerError):
    """There is no approval for exactly this call; the code says why."""

    code = "approval_refused"
    status = 403


class LedgerUnavailableError(LedgerError):
    """The database cannot be reached or is busy. After a lost connection, a write may still have been committed."""

    code = "ledger_unavailable"
    status = 503
    retryable = True


class BusError(FerruleError):
    """A message on the bus is not valid."""

    code = "bus_failed"
    status = 502


class BusUnavailableError(BusError):
    """The bus cannot be reached, or refuses the connection."""

    code = "bus_unavailable"
    status = 503
    retryable = True


class EngineError(FerruleError):
    """An engine failed, or its answer is not valid.

    Example:
        try:
            reply = engine.generate(request)
        except EngineError as error:
            if not error.retryable:
                raise
            print(error.upstream_status, error.upstream_body)
    """

    code = "engine_failed"
    status = 502

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        hint: str = "",
        upstream_status: int | None = None,
        upstream_body: str = "",
        retry_after: float | None = None,
        param: str = "",
    ) -> None:
        super().__init__(message, code=code, hint=hint)
        self.param = param
        self.retry_after = retry_after
        """The seconds after which the engine wants to be asked again; None if it named none."""
        self.upstream_status = upstream_status
        """The HTTP status with which the engine refused the request; None if it sent none."""
        self.upstream_body = upstream_body
        """What the engine sent with that status, cut after some hundred characters."""

    @property
    def is_refusal(self) -> bool:
        """Whether the engine answered, and would refuse the same request again."""
        return not self.retryable and (self.upstream_status is not None or self.code == "engine_refused")


class EngineRequestError(EngineError):
    """An engine rejects the request itself: it is too long, or has a value that the engine does not take.

    Example:
        except EngineRequestError as error:
            print("send something else:", error.code, error.param)
    """

    code = "request_rejected"
    status = 400


class EngineAccessError(EngineError):
    """An engine refuses the credentials that it was configured with.

    Example:
        except EngineAccessError as error:
            print("check the key of the engine:", error.upstream_status)
    """

    code = "engine_access_denied"


class EngineModelError(EngineError):
    """An engine does not have the model that it was configured with.

    Example:
        except EngineModelError as error:
            print("check the model's name:", error.message)
    """

    code = "model_not_found"
    status = 404


class EngineUnavailableError(EngineError):
    """An engine cannot be reached or is overloaded; nothing was generated.

    Example:
        except EngineUnavailableError:
            reply = other_engine.generate(request)
    """

    code = "engine_unavailable"
    status = 503
    retryable = True


class EngineRateLimitError(EngineUnavailableError):
    """An engine accepts no more requests at the moment; `retry_after` is in seconds, if it said so.

    Example:
        except EngineRateLimitError as error:
            time.sleep(error.retry_after or 1.0)
    """

    code = "engine_rate_limited"
    status = 429


class EngineTimeoutError(EngineError):
    """An engine took too long.

    Example:
        except EngineTimeoutError as error:
            print("try again:", error.hint)
    """

    code = "timeout"
    status = 504
    retryable = True


class InvalidResponseError(EngineError):
    """The answer does not fit the `response_type` of its request.

    Example:
        reply = await engine.ask("Name a city.", response_type=City)
        try:
            city = reply.value
        except InvalidResponseError as error:
            print(error.message, reply.text)
    """

    code = "invalid_response"


class NoValidCallError(EngineError):
    """A call was required, and the model made none, or none that fits its schema.

    Example:
        try:
            reply = await engine.ask("Tag this page.", tools=[tag], tool_choice="required")
        except NoValidCallError as error:
            print(error.message)
    """

    code = "no_valid_call"


class UnsupportedError(EngineError):
    """An engine cannot do what the request asks. It is raised before anything is generated.

    Example:
        except UnsupportedError as error:
            print(error.message)
    """

    code = "not_supported"
    status = 400


class FormatError(FerruleError):
    """The base class for errors about formats.

    Example:
        except FormatError as error:
            print(error.code, error.message)
    """

    code = "bad_format"
    status = 400


class UnknownFormatError(FormatError):
    """No format has that name.

    Example:
        get_format("no-such-format")  # raises UnknownFormatError
    """

    code = "unknown_format"


class FormatConflictError(FormatError):
    """Two formats claim one name or one template.

    Example:
        register(my_format)
        register(another_format_of_that_name)  # raises FormatConflictError
    """

    code = "format_conflict"


class TemplateError(FormatError):
    """A chat template is broken, refuses the conversation, or uses something that is not allowed.

    Example:
        except TemplateError as error:
            print(error.message)
    """

    code = "bad_template"


class UnrenderableError(FormatError):
    """The format cannot express a part of the reply; `where` names the part.

    Example:
        except UnrenderableError as error:
            print(error.where, error.message)
    """

    code = "unrenderable"

    def __init__(self, message: str, *, where: str, hint: str = "") -> None:
        super().__init__(f"{where}: {message}", hint=hint)
        self.where = where
