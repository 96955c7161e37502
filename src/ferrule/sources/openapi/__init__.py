"""The operations of OpenAPI documents as a source of tools."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ferrule.sources.openapi.source import ApiKey, OpenApi


def openapi(
    document: str | PathLike[str] | Mapping[str, Any],
    *,
    server: str = "",
    key: ApiKey | None = None,
    prefix: str = "",
    timeout_seconds: float = 30.0,
    max_bytes: int = 1024 * 1024,
) -> OpenApi:
    """Return the operations of an OpenAPI 3 document as tools: those of a JSON or YAML file, or of a dict.

    GET and HEAD operations read; every other operation has side effects and needs approval. Requests go only to
    `server`, or to the first server of the document. `key` is sent with each request and is never shown to a model.

    Example:
        from ferrule.sources import ApiKey, openapi

        github = openapi("github.json", key=ApiKey("Bearer TOKEN", header="authorization"), prefix="github")
    """
    from ferrule.sources.openapi.document import check_document, read_document
    from ferrule.sources.openapi.source import OpenApi

    whole = check_document(document) if isinstance(document, Mapping) else read_document(document)
    return OpenApi(whole, server=server, key=key, prefix=prefix, timeout_seconds=timeout_seconds, max_bytes=max_bytes)
