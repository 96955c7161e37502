"""llama.cpp in this process, by xllamacpp: its own server as a library, with continuous batching and a prompt cache.

Requests run side by side in the server's slots; a slot keeps the prompt that it last saw, so that the next turn of a
conversation reads only what is new. The one owner of xllamacpp.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import AsyncGenerator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from urllib.request import ProxyHandler, Request, build_opener

from ferrule.core.json_text import dumps, loads
from ferrule.engines.checkpoint.gguf import read_metadata
from ferrule.engines.completions import Reading
from ferrule.engines.engine import Traits
from ferrule.engines.generator import Ended, ModelFacts, Piece, Writing
from ferrule.engines.grammar_probe import sings
from ferrule.engines.llama_body import cutting_body, streaming_body
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.errors import EngineError, UnsupportedError

_CONTROL = 3
# In tokens, as `scripts/bench-skip` found it: the slot still holds what was read and written.
_GOING_ON = 2.0
_TARGETS = ("lark", "gbnf")
_SECONDS_TO_CUT = 30.0
# An environment's proxy is not for what stays in this process.
_DIRECTLY = build_opener(ProxyHandler({}))


def llama(
    path: str | Path,
    options: TextOptions | None = None,
    *,
    threads: int = 1,
    slots: int = 4,
    context: int = 4096,
    gpu_layers: int = 0,
) -> TextEngine:
    """An engine on a GGUF file. `context` is for each of the `slots`, which is how many requests run at once.

    One thread is the default: on a machine that does anything else, llama.cpp's threads spend their time waiting for
    each other. Give as many as there are cores that have nothing else to do.
    """
    return TextEngine(LlamaGenerator(Path(path), threads, slots, context, gpu_layers), options)


class LlamaGenerator:
    """Continues text with a model in this process."""

    def __init__(self, path: Path, threads: int, slots: int, context: int, gpu_layers: int = 0) -> None:
        if not path.is_file():
            raise EngineError(
                f"there is no model file {path}", code="no_such_model", hint="Give the path of a .gguf file."
            )
        self.traits = Traits(name="llama", targets=_TARGETS, going_on=_GOING_ON)
        self._path = path
        self._context = context
        # The library listens on loopback, too: whoever has no key is sent away from there.
        self._key = secrets.token_hex(32)
        self._server = _server(path, threads, slots, context, gpu_layers, self._key)
        self._threads = ThreadPoolExecutor(max_workers=slots, thread_name_prefix="llama")

    async def facts(self) -> ModelFacts:
        held = tuple([target for target in _TARGETS if await sings(self.write, target)])
        self.traits = replace(self.traits, targets=held)
        known = await asyncio.to_thread(facts_of_file, self._path)
        # llama.cpp gives a slot no more than the model was trained on, whatever it is asked for.
        return replace(known, context=min(self._context, known.context or self._context))

    async def templated(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> str | None:
        return None

    async def count(self, prompt: str) -> int | None:
        return len(await self.cut(prompt, is_prompt=True))

    async def cut(self, text: str, *, is_prompt: bool) -> tuple[int, ...]:
        answer = await asyncio.to_thread(self._asked, "/tokenize", cutting_body(text, is_prompt=is_prompt))
        return tuple(cast("list[int]", answer["tokens"]))

    async def spelled(self, tokens: tuple[int, ...]) -> str | None:
        return str((await asyncio.to_thread(self._asked, "/detokenize", {"tokens": tokens}))["content"])

    def _asked(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Asked over loopback: of all that the library can do, its tokenizer alone it does not offer as a function."""
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._key}"}
        request = Request(f"{self._server.listening_address}{path}", dumps(body).encode(), headers)
        try:
            with _DIRECTLY.open(request, timeout=_SECONDS_TO_CUT) as answer:
                return cast("dict[str, Any]", loads(answer.read().decode()))
        except OSError as failure:
            raise EngineError(f"the model's tokenizer could not be asked: {failure}") from failure

    async def write(self, writing: Writing) -> AsyncGenerator[Piece | Ended, None]:
        loop = asyncio.get_running_loop()
        chunks: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        stopped = threading.Event()

        def told(chunk: dict[str, Any]) -> bool:
            loop.call_soon_threadsafe(chunks.put_nowait, chunk)
            return stopped.is_set()

        body = streaming_body(writing)
        work = loop.run_in_executor(self._threads, self._server.handle_completions, body, told)
        work.add_done_callback(lambda _: chunks.put_nowait(None))
        reading = Reading()
        try:
            while (chunk := await chunks.get()) is not None:
                for piece in reading.pieces(chunk):
                    yield piece
            work.result()
            if reading.ended:
                yield reading.ended
        finally:
            stopped.set()

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def facts_of_file(path: Path) -> ModelFacts:
    """What a GGUF file says of its model."""
    head = read_metadata(path)
    tokens = cast("list[str]", head.get("tokenizer.ggml.tokens") or [])
    kinds = cast("list[int]", head.get("tokenizer.ggml.token_type") or [])

    def token(key: str) -> str:
        number = head.get(f"tokenizer.ggml.{key}_token_id")
        return tokens[number] if isinstance(number, int) and 0 <= number < len(tokens) else ""

    return ModelFacts(
        name=str(head.get("general.name", path.stem)),
        template=str(head.get("tokenizer.chat_template", "")),
        # llama.cpp puts it before the prompt itself where the model wants it.
        bos=""
        if head.get("tokenizer.ggml.add_bos_token", head.get("tokenizer.ggml.model") == "llama")
        else token("bos"),
        eos=token("eos"),
        ends=ends_of(head),
        context=int(head.get(f"{head.get('general.architecture')}.context_length") or 0),
        specials={text: n for n, (text, kind) in enumerate(zip(tokens, kinds, strict=False)) if kind == _CONTROL},
    )


def ends_of(head: Mapping[str, Any]) -> tuple[int, ...]:
    """Every token that ends a turn: llama.cpp's matcher takes one of them for the end, and models write another."""
    found = (head.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot", "eom"))
    return tuple(dict.fromkeys(token for token in found if isinstance(token, int)))


def _server(path: Path, threads: int, slots: int, context: int, gpu_layers: int, key: str) -> Any:
    try:
        import xllamacpp  # pyright: ignore[reportMissingTypeStubs]
    except ImportError as missing:
        raise UnsupportedError(
            "llama.cpp is not installed", code="missing_package", hint='pip install "ferrule[llama]"'
        ) from missing
    library = cast("Any", xllamacpp)
    params = library.CommonParams()
    params.model.path = str(path)
    params.n_parallel = slots
    params.n_ctx = context * slots
    params.n_gpu_layers = gpu_layers
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    params.warmup = False
    params.verbosity = 0
    params.api_keys = [key]
    return library.Server(params)
