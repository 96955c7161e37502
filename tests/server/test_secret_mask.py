"""Secrets in what an engine said are masked, and the rest stays readable."""

from __future__ import annotations

import pytest

from ferrule.server.secret_mask import mask_text


@pytest.mark.parametrize(
    "text, masked",
    [
        ("Incorrect API key provided: sk-proj-abcdefgh12345678", "Incorrect API key provided: ***"),
        ("Authorization: Bearer abcdef123456", "Authorization: Bearer ***"),
        ('{"api_key": "abcdef", "n": 1}', '{"api_key": "***", "n": 1}'),
        ("password=hunter2 host=db", "password=*** host=db"),
        ("postgresql://me:hush@db/x", "postgresql://me:***@db/x"),
        ("https://host/v1?key=abc&n=1", "https://host/v1?key=***&n=1"),
        (
            "maximum context length is 4096 tokens, max_tokens: 512",
            "maximum context length is 4096 tokens, max_tokens: 512",
        ),
    ],
)
def test_what_looks_like_a_secret_is_masked(text: str, masked: str) -> None:
    assert mask_text(text) == masked
