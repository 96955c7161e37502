"""The label of an engine in results: without API keys, without passwords in URLs, without local folders."""

from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from ferrule.engines.engine import Engine
from ferrule.engines.registry import ENGINES, parse_engine_spec
from ferrule.engines.text.engine import TextEngine

# Options that change the answers. Others are never shown or stored, because one of them may be a key.
_SHOWN_OPTIONS: Final = (
    *("model", "checkpoint", "api"),
    *("format", "target", "reasoning", "fallback_mode", "any_order"),
)


def engine_label(engine: str) -> str:
    """The engine string as it may appear in results."""
    parts = parse_engine_spec(engine)
    entry = ENGINES.get(parts.kind)
    on = parts.argument
    if entry is not None and entry.argument == "PATH":
        on = Path(on).name
    elif "://" in on:
        address = urlsplit(on)
        on = f"{address.scheme}://{address.netloc.rpartition('@')[2]}{address.path}"
    options = [f"{name}={Path(parts.options[name]).name}" for name in _SHOWN_OPTIONS if name in parts.options]
    return f"{parts.kind}:{on}" + (f"?{'&'.join(options)}" if options else "")


async def label_with_format(engine: Engine, name: str) -> str:
    """The label followed by the format, if Ferrule chooses the format for this engine."""
    return f"{name}, {(await engine.format()).name}" if isinstance(engine, TextEngine) else name
