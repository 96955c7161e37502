from __future__ import annotations

import base64
import hmac
import json
import time
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.context import CallContext, Principal, Progress
from ferrule.errors import AuthorityError, BudgetError, DefinitionError
from ferrule.sources.bus.token import LOCAL, _signature, sign_token, validate_key, verify_token

KEY, OTHER = b"k" * 32, b"o" * 32
texts = st.text(st.characters(), max_size=20)
principals = st.builds(Principal, texts, texts, st.none() | st.frozensets(texts, max_size=5))
contexts = st.builds(
    CallContext,
    call_id=st.text(st.characters(), min_size=1, max_size=20),
    conversation=texts,
    principal=principals,
    deadline=st.integers(0, 10**10).map(float),
    hops=st.integers(0, 100),
)


def ignore(progress: Progress) -> None:
    """Ignore progress."""


def token_of(context: CallContext, key: bytes | None = KEY) -> str:
    assert context.deadline is not None
    return sign_token(context, key, context.deadline)


@given(contexts)
def test_a_token_states_exactly_what_was_signed(context: CallContext) -> None:
    assert verify_token(token_of(context), KEY, ignore) == context


@given(contexts, st.data())
def test_a_token_with_one_changed_byte_is_refused(context: CallContext, data: st.DataObject) -> None:
    token = token_of(context)
    at = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.characters().filter(lambda character: character != token[at]))
    with pytest.raises(AuthorityError):
        verify_token(token[:at] + other + token[at + 1 :], KEY, ignore)


@given(contexts)
def test_a_token_of_another_key_or_without_signature_is_refused(context: CallContext) -> None:
    for token in (token_of(context, OTHER), token_of(context, None)):
        with pytest.raises(AuthorityError) as refusal:
            verify_token(token, KEY, ignore)
        assert refusal.value.code == "token_scope_insufficient"
        assert refusal.value.hint


@given(st.text(st.characters(), max_size=60), st.sampled_from([None, KEY]))
def test_any_text_is_a_token_or_refused(text: str, key: bytes | None) -> None:
    with suppress(AuthorityError):
        verify_token(text, key, ignore)


def unsigned(stated: object, call: str = "YQ==", deadline: str = "1000") -> str:
    return f"{base64.b64encode(json.dumps(stated).encode()).decode()}.{call}.{deadline}."


GRANT = {"conv": "", "hops": 6, "sub": "ann", "scp": None, "ten": LOCAL}


@pytest.mark.parametrize(
    "token",
    [
        unsigned([]),
        unsigned({}),
        *(unsigned({**GRANT, name: 1.5}) for name in GRANT),
        unsigned({**GRANT, "hops": -1}),
        unsigned({**GRANT, "hops": True}),
        unsigned({**GRANT, "hops": 10**9}),
        unsigned({**GRANT, "scp": [1]}),
        unsigned(GRANT, call="%"),
        unsigned(GRANT, deadline="-1"),
        unsigned(GRANT, deadline="inf"),
        unsigned(GRANT, deadline="9" * 400),
        unsigned(GRANT, deadline="1.5"),
    ],
)
def test_a_statement_that_is_none_is_refused(token: str) -> None:
    assert verify_token(unsigned(GRANT), None, ignore).principal.name == "ann"
    with pytest.raises(AuthorityError):
        verify_token(token, None, ignore)


@given(contexts)
def test_without_a_key_only_the_local_tenant_is_believed(context: CallContext) -> None:
    local = replace(context, principal=replace(context.principal, tenant=LOCAL))
    assert verify_token(token_of(local, None), None, ignore) == local
    if context.principal.tenant != LOCAL:
        with pytest.raises(AuthorityError):
            verify_token(token_of(context, None), None, ignore)
    with pytest.raises(AuthorityError):
        verify_token(token_of(local, KEY), None, ignore)


@given(contexts)
def test_a_token_for_a_call_of_a_tool_is_never_wider(context: CallContext) -> None:
    received = verify_token(token_of(context), KEY, ignore)
    if received.hops == 0:
        with pytest.raises(BudgetError):
            received.nested()
        return
    deeper = verify_token(token_of(received.nested()), KEY, ignore)
    assert deeper.hops < context.hops
    assert deeper.principal == context.principal
    assert deeper.deadline is not None
    assert context.deadline is not None
    assert deeper.deadline <= context.deadline
    assert deeper.call_id == context.call_id


def test_a_call_without_an_id_is_given_one() -> None:
    token = sign_token(CallContext(), KEY, time.time(), "fresh")
    assert verify_token(token, KEY, ignore).call_id == "fresh"
    assert verify_token(sign_token(CallContext(call_id="own"), KEY, 1.0, "fresh"), KEY, ignore).call_id == "own"


def test_a_short_key_is_refused() -> None:
    assert validate_key(None) is None
    assert validate_key(KEY) == KEY
    with pytest.raises(DefinitionError):
        validate_key(b"secret")


@given(st.binary(min_size=16, max_size=200), st.binary(max_size=300))
def test_a_signature_is_the_hmac_of_the_standard_library(key: bytes, text: bytes) -> None:
    expected = base64.b64encode(hmac.digest(key, text, "sha256"))
    assert _signature(text, key) == expected
    # The second time from what was computed the first time.
    assert _signature(text, key) == expected
