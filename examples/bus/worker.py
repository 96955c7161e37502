"""A worker: serves functions on a NATS bus until it is stopped (Ctrl-C). Start as many as you like.

`ferrule worker bus.worker:TOOLS` does the same and has options for keys, tenants and limits.
"""

from __future__ import annotations

import asyncio
import os

from ferrule import CallContext, tool
from ferrule.sources import Functions, Worker

URL = os.environ.get("FERRULE_NATS", "nats://127.0.0.1:4222")


# Callers find it as kitchen.brew@1.0, wherever it runs.
@tool(bound_to=("kitchen.brew", "1.0"))
async def brew(cups: int, context: CallContext) -> str:
    """Makes some cups of coffee."""
    # The context is not part of the schema: it says who is calling, and reports progress to the caller.
    for cup in range(1, cups + 1):
        await asyncio.sleep(0.1)
        context.report(cup, cups, "brewed")
    print(f"process {os.getpid()} brewed {cups} cups for {context.principal.name}", flush=True)
    return f"The coffee is ready: {cups} cups."


TOOLS = [brew]


async def main() -> None:
    async with Worker(Functions(TOOLS), URL) as worker:
        for capability in worker.capabilities:
            print(f"serving {capability} on {URL}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("stopped")
