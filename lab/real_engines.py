"""The engines that run on one machine without a GPU, by name, as context managers that start and stop them."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

from ferrule.engines.engine import Engine
from ferrule.engines.llama import LlamaGenerator
from ferrule.engines.llama_server import llama_server
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.engines.vllm import vllm
from lab import servers

Opened = Callable[[TextOptions], AbstractAsyncContextManager[Engine]]
SLOTS: Final = 4


@asynccontextmanager
async def _llama(options: TextOptions) -> AsyncGenerator[Engine]:
    async with TextEngine(LlamaGenerator(servers.MODEL, 1, SLOTS, 4096), options) as engine:
        yield engine


@asynccontextmanager
async def _llama_server(options: TextOptions) -> AsyncGenerator[Engine]:
    with servers.llama_server() as url:
        async with llama_server(url, options) as engine:
            yield engine


def _vllm(*arguments: str) -> Opened:
    @asynccontextmanager
    async def open_engine(options: TextOptions) -> AsyncGenerator[Engine]:
        with servers.vllm_server(arguments=arguments) as url:
            async with vllm(url, options) as engine:
                yield engine

    return open_engine


ENGINES: Final[Mapping[str, Opened]] = {"llama": _llama, "llama-server": _llama_server, "vllm": _vllm()}
BY_MATCHER: Final[Mapping[str, Opened]] = {
    **{"llama": _llama, "llama-server": _llama_server},
    **{"vllm, guidance": _vllm(*servers.ON_GUIDANCE), "vllm, xgrammar": _vllm()},
}
"""The same, with both grammar backends of vLLM."""
