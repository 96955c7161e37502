"""Calls one tool of the bus by hand: `python -m hearth.call TOOL JSON`."""

from __future__ import annotations

import asyncio
import json
import os
import sys

from ferrule import CallContext
from ferrule.sources import Answered, Bus


async def _main(name: str, arguments: str) -> int:
    async with Bus(os.environ.get("FERRULE_NATS", "nats://127.0.0.1:4222")) as bus:
        outcome = await bus.call(name, json.loads(arguments), CallContext())
    print(json.dumps(outcome.content, ensure_ascii=False, indent=2) if isinstance(outcome, Answered) else outcome)
    return 0 if isinstance(outcome, Answered) and not outcome.is_error else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(_main(sys.argv[1], sys.argv[2])))
