"""Finds other workers on the bus, with NATS service discovery."""

from __future__ import annotations

import os
from collections import defaultdict
from typing import Any

from ferrule import CallContext, tool
from ferrule.sources import Bus

URL = "FERRULE_NATS"


@tool(bound_to=("neighbour.find", "1.0"))
async def find_neighbour(context: CallContext, can: str = "") -> list[dict[str, Any]]:
    """Finds who else is on the network, and what each can do.

    Args:
        can: part of a capability's name; left out, everybody
    """
    # The caller sees only the capabilities that it may use.
    who = context.principal
    async with Bus(os.environ.get(URL, "nats://127.0.0.1:4222"), tenant=who.tenant) as bus:
        capabilities = await bus.discover()
    abilities: dict[str, set[str]] = defaultdict(set)
    names: dict[str, str] = {}
    for one in capabilities:
        names[one.worker] = one.metadata.get("node") or one.metadata.get("server", "somebody")
        if can in one.capability.name and who.may_use(one.capability.name):
            abilities[one.worker].add(str(one.capability))
    listed = [{"neighbour": names[worker], "can": sorted(able)} for worker, able in abilities.items()]
    return sorted(listed, key=lambda entry: (entry["neighbour"], entry["can"]))
