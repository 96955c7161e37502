"""What an engine's HTTP status means."""

from __future__ import annotations

from email.utils import formatdate
from time import time

import pytest

from ferrule.engines.refusal import TOO_LONG, refusal_of


@pytest.mark.parametrize(
    "upstream, status, retryable",
    [
        (400, 400, False),
        (401, 502, False),
        (403, 502, False),
        (404, 404, False),
        (408, 504, True),
        (409, 502, False),
        (413, 400, False),
        (422, 400, False),
        (429, 429, True),
        (500, 502, False),
        (503, 503, True),
        (504, 504, True),
        (529, 503, True),
    ],
)
def test_each_status_has_an_error_and_keeps_the_engines_own(upstream: int, status: int, retryable: bool) -> None:
    error = refusal_of("http://engine/v1", upstream, "words")
    assert (error.status, error.retryable, error.upstream_status, error.upstream_body) == (
        status,
        retryable,
        upstream,
        "words",
    )
    assert error.is_refusal is not retryable


@pytest.mark.parametrize(
    "text",
    [
        '{"error": {"code": "context_length_exceeded"}}',
        "This model's maximum context length is 4096 tokens.",
        "prompt is too long: 200001 tokens > 200000 maximum",
        "the request exceeds the available context size, try increasing it",
    ],
)
def test_a_prompt_that_is_too_long_has_the_code_that_agents_know(text: str) -> None:
    assert refusal_of("", 400, text).code == TOO_LONG


@pytest.mark.parametrize(
    "text, param",
    [
        ('{"error": {"param": "temperature"}}', "temperature"),
        ('{"error": {"param": "https://10.1.2.3"}}', ""),
        ('{"error": {"param": 7}}', ""),
        ('{"error": "no"}', ""),
        ("[]", ""),
        ("<html>", ""),
    ],
)
def test_only_the_name_of_a_requests_field_is_taken_from_a_refusal(text: str, param: str) -> None:
    assert refusal_of("", 400, text).param == param


@pytest.mark.parametrize(
    "header, seconds", [("7", 7.0), ("0.5", 0.5), ("", None), ("soon", None), ("-3", None), ("9" * 400, 3600.0)]
)
def test_retry_after_is_read_and_bounded(header: str, seconds: float | None) -> None:
    assert refusal_of("", 429, "", header).retry_after == seconds


def test_retry_after_may_be_a_date() -> None:
    assert refusal_of("", 429, "", formatdate(time() - 60, usegmt=True)).retry_after == 0.0
