"""What an engine is called in results: no key, no password of an address, no folder of the machine."""

from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from ferrule.engines.engine import Engine
from ferrule.engines.registry import ENGINES, parts_of
from ferrule.engines.text.engine import TextEngine

# Options that change what is answered. Others are left out of what is shown and kept: one of them may be a key.
_TOLD: Final = (
    *("model", "checkpoint", "api"),
    *("format", "target", "reasoning", "fallback_mode", "is_bounded", "any_order"),
)


def named(engine: str) -> str:
    """An engine's string as results may show it."""
    parts = parts_of(engine)
    entry = ENGINES.get(parts.kind)
    on = parts.on
    if entry is not None and entry.on == "PATH":
        on = Path(on).name
    elif "://" in on:
        address = urlsplit(on)
        on = f"{address.scheme}://{address.netloc.rpartition('@')[2]}{address.path}"
    told = [f"{name}={Path(parts.options[name]).name}" for name in _TOLD if name in parts.options]
    return f"{parts.kind}:{on}" + (f"?{'&'.join(told)}" if told else "")


async def described(engine: Engine, name: str) -> str:
    """The name with the format that the model is spoken to in, where Ferrule decides that."""
    return f"{name}, {(await engine.format()).name}" if isinstance(engine, TextEngine) else name
