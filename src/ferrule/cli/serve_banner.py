"""What `ferrule serve` says when it is up: where it is, what it serves, and a line to try."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence

from ferrule.cli.terminal import seen
from ferrule.core.tool import ToolDefinition
from ferrule.server.addresses import without_secrets
from ferrule.server.config.config import Config

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}
_SHOWN = 12


def greeting(config: Config, port: int, tools: Sequence[ToolDefinition]) -> str:
    """The first line is for programs that wait for it."""
    rows = [
        ("console", f"{_reached(config, port)}/console/"),
        ("models", ", ".join(_model(config))),
        ("tools", _tools(config, tools)),
        ("ledger", without_secrets(config.ledger) or "kept until this process ends; --ledger FILE keeps it longer"),
        ("keys", str(len(config.keys)) if config.keys else f"none: {_everybody(config)} may use everything"),
    ]
    told = "".join(f"  {name:7} {words}\n" for name, words in rows)
    first = f"serving on http://{_host(config.listening.host)}:{port}\n"
    return seen(f"{first}{told}try it:\n  {curl(config, port)}\n")


def curl(config: Config, port: int) -> str:
    """A command that a person can paste."""
    model = config.served[0].name
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": "Say hello."}]}, ensure_ascii=False)
    key = ' -H "authorization: Bearer $FERRULE_KEY"' if config.keys else ""
    url = f"{_reached(config, port)}/v1/chat/completions"
    return f"curl {url}{key} -H 'content-type: application/json' -d {shlex.quote(body)}"


def _reached(config: Config, port: int) -> str:
    """How it is reached from this machine."""
    host = _EVERYWHERE.get(config.listening.host, config.listening.host)
    return f"http://{_host(host)}:{port}"


def _model(config: Config) -> Iterable[str]:
    for model in config.served:
        several = f" ({len(model.engines)} engines)" if len(model.engines) > 1 else ""
        yield f"{model.name}{several}"


def _tools(config: Config, tools: Sequence[ToolDefinition]) -> str:
    if not tools:
        return "none of its own; whoever asks may bring some"
    asks = config.tools.tools_require_confirmation_for_side_effects
    free = [tool.name for tool in tools if not (tool.side_effects and asks)]
    held = [tool.name for tool in tools if tool.side_effects and asks]
    parts = [f"{_listed(free)}"] if free else []
    parts += [f"with leave for each call: {_listed(held)}"] if held else []
    return f"{len(tools)}: {'; '.join(parts)}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _everybody(config: Config) -> str:
    return "everybody who reaches it" if config.listening.insecure else "everybody on this machine"


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
