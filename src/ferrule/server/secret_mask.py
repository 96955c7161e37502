"""Masks secrets in text that an operator reads: addresses of the configuration, and what an engine or database said."""

from __future__ import annotations

import re

_PASSWORD = re.compile(r"(?<=://)([^/@\s:]*):[^/@\s]*@")
# In a NATS URL, a user without a password is a token.
_TOKEN = re.compile(r"\b((?:nats|tls|wss?)://)[^/@:\s]+@")
_SECRET_OPTION = re.compile(r"(?i)([?&](?:[a-z_]*key|token|secret|password)=)[^&\s]*")
# In free text: what follows a name for a secret, what is sent in an Authorization header, and keys that are known by
# their beginning (OpenAI and others, Anthropic, Groq, Hugging Face, GitHub, AWS, Google, JSON Web Tokens).
_NAMED = re.compile(
    r"""(?ix)(\b[a-z_-]*(?:api[_\- ]?key|access[_\- ]?key|token|secret|password|passwd|authorization|credential)\b
    ["']?\s*[:=]\s*["']?)(?!bearer\b|basic\b)[^\s"',;&}\]]{3,}"""
)
_AUTHORIZATION = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{6,}")
_KEY = re.compile(r"\b(?:(?:sk|pk|rk|gsk|hf|ghp|gho|github_pat|xai)[-_]|AKIA|AIza|eyJ)[\w.-]{8,}")


def mask_secrets(text: str) -> str:
    """Replace passwords, tokens and keys in an address or an engine string with `***`."""
    return _SECRET_OPTION.sub(r"\1***", _TOKEN.sub(r"\1***@", _PASSWORD.sub(r"\1:***@", text)))


def mask_text(text: str) -> str:
    """Replace what looks like a secret in free text with `***`."""
    masked = _NAMED.sub(r"\1***", _AUTHORIZATION.sub(r"\1 ***", mask_secrets(text)))
    return _KEY.sub("***", masked)
