"""The worker processes for `bus_costs` and `bus_scale`.

They serve an echo with bare nats-py, the same echo as a capability, and two tools that take their time.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from nats.aio.client import Client

from ferrule.core.context import CallContext
from ferrule.core.outcome import Answered, Outcome
from ferrule.core.tool import ToolDefinition
from ferrule.schema.tool_decorator import tool
from ferrule.sources.bus.worker import Worker
from ferrule.sources.functions import Function, Functions
from ferrule.sources.source import Source

BARE_SUBJECT: Final = "bench.echo"
KEY: Final = b"bench" * 8
CAP: Final = 256
QUICK_SECONDS: Final = 0.01
SLOW_SECONDS: Final = 5 * QUICK_SECONDS


@tool(bound_to=("bench.echo", "1.0"))
async def echo(text: str) -> str:
    """Gives back what it is given."""
    return text


@tool(name="echo", bound_to=("bench.echo", "1.0"))
def plain_echo(text: str) -> str:
    """Gives back what it is given."""
    return text


async def bare(url: str) -> None:
    client: Any = Client()
    await client.connect(url)

    async def answer(message: Any) -> None:
        await message.respond(message.data)

    await client.subscribe(BARE_SUBJECT, "q", answer)
    await client.flush()
    await _wait_for_stdin()


class Echo(Source):
    """The smallest possible source, so that only the bus is measured."""

    id = "echo"

    async def tools(self) -> tuple[ToolDefinition, ...]:
        return (echo.definition,)

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        return Answered(arguments["text"])


async def source(url: str) -> None:
    async with Worker(Echo(), url, key=KEY, cap=CAP):
        await _wait_for_stdin()


async def function(url: str) -> None:
    async with Worker(Functions([echo]), url, key=KEY, cap=CAP):
        await _wait_for_stdin()


async def plain(url: str) -> None:
    async with Worker(Functions([plain_echo]), url, key=KEY, cap=CAP):
        await _wait_for_stdin()


def _who(name: str, seconds: float) -> Function:
    @tool(name="who", bound_to=("bench.who", "1.0"))
    async def who() -> str:
        """Says which worker it is, after a while."""
        await asyncio.sleep(seconds)
        return name

    return who


async def quick(url: str) -> None:
    async with Worker(Functions([_who("quick", QUICK_SECONDS)]), url, key=KEY):
        await _wait_for_stdin()


async def slow(url: str) -> None:
    async with Worker(Functions([_who("slow", SLOW_SECONDS)]), url, key=KEY):
        await _wait_for_stdin()


async def _wait_for_stdin() -> None:
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


KINDS: Final[dict[str, Callable[[str], Coroutine[Any, Any, None]]]] = {
    "bare": bare,
    "source": source,
    "function": function,
    "plain": plain,
    "quick": quick,
    "slow": slow,
}

if __name__ == "__main__":
    asyncio.run(KINDS[sys.argv[1]](sys.argv[2]))
