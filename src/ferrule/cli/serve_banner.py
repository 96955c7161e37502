"""The banner of `ferrule serve`: its address, what it serves, and a command to try."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence

from ferrule.cli.terminal import printable
from ferrule.core.tool import ToolDefinition
from ferrule.server.addresses import mask_secrets
from ferrule.server.config.config import Config

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}
_SHOWN = 12


def banner(config: Config, port: int, tools: Sequence[ToolDefinition]) -> str:
    """The banner. Programs may wait for its first line."""
    rows = [
        ("console", f"{_local_url(config, port)}/console/"),
        ("models", ", ".join(_model(config))),
        ("tools", _tools(config, tools)),
        ("ledger", mask_secrets(config.ledger) or "in memory; --ledger FILE keeps it after a restart"),
        ("keys", str(len(config.keys)) if config.keys else f"none: {_anonymous_users(config)} may use everything"),
    ]
    details = "".join(f"  {name:7} {text}\n" for name, text in rows)
    first = f"serving on http://{_host(config.server.host)}:{port}\n"
    return printable(f"{first}{details}try it:\n  {curl(config, port)}\n")


def curl(config: Config, port: int) -> str:
    """A curl command to paste into a shell."""
    model = config.served_models[0].name
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": "Say hello."}]}, ensure_ascii=False)
    key = ' -H "authorization: Bearer $FERRULE_KEY"' if config.keys else ""
    url = f"{_local_url(config, port)}/v1/chat/completions"
    return f"curl {url}{key} -H 'content-type: application/json' -d {shlex.quote(body)}"


def _local_url(config: Config, port: int) -> str:
    """The URL on this machine."""
    host = _EVERYWHERE.get(config.server.host, config.server.host)
    return f"http://{_host(host)}:{port}"


def _model(config: Config) -> Iterable[str]:
    for model in config.served_models:
        several = f" ({len(model.engines)} engines)" if len(model.engines) > 1 else ""
        yield f"{model.name}{several}"


def _tools(config: Config, tools: Sequence[ToolDefinition]) -> str:
    if not tools:
        return "none; clients may supply their own tools"
    needs_approval = config.tools.tools_require_confirmation_for_side_effects
    unrestricted = [tool.name for tool in tools if not (tool.side_effects and needs_approval)]
    restricted = [tool.name for tool in tools if tool.side_effects and needs_approval]
    parts = [f"{_shortened(unrestricted)}"] if unrestricted else []
    parts += [f"with approval for each call: {_shortened(restricted)}"] if restricted else []
    return f"{len(tools)}: {'; '.join(parts)}"


def _shortened(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _anonymous_users(config: Config) -> str:
    return "anyone who can connect" if config.server.insecure else "anyone on this machine"


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
