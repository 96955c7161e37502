"""The `llama` engine: llama.cpp in this process, through xllamacpp. The only module that uses xllamacpp.

xllamacpp is llama.cpp's server as a library, with continuous batching and a prompt cache. Requests run in parallel in
the server's slots. A slot keeps its last prompt, so the next turn of a conversation reads only what is new.
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

from ferrule.core.forward import ForwardApi
from ferrule.core.json_text import dumps, loads
from ferrule.engines.checkpoint.gguf import read_metadata, read_shape, require_gguf, special_texts_of
from ferrule.engines.checkpoint.special_tokens import finder_of
from ferrule.engines.completions import CompletionDecoder
from ferrule.engines.engine import Traits
from ferrule.engines.forward import HttpForwarder
from ferrule.engines.generator import CompletionEnd, CompletionRequest, ModelFacts, Piece
from ferrule.engines.grammar import honours_grammar
from ferrule.engines.hardware import ModelSize, choose_settings, read_hardware
from ferrule.engines.http import SILENT_DEADLINES, HttpClient
from ferrule.engines.llama_body import completion_body, tokenize_body
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.errors import EngineError, UnsupportedError

_CONTROL_TOKEN = 3
# In tokens, measured by `scripts/bench-skip`. It is low because the slot still has the prompt and the answer.
_CONTINUATION_COST = 2.0
_TARGETS = ("lark", "gbnf")
POOLINGS = ("mean", "cls", "last")
_FORWARD_HINTS = {ForwardApi.EMBEDDINGS: "Load the engine with embeddings: llama:PATH?embeddings=mean (or cls, last)."}
_TOKENIZE_TIMEOUT = 30.0
_BATCH = 512
"""How many tokens of a prompt are read between two reports of progress.

As many as llama.cpp computes at once: with fewer, its sums are rounded otherwise, and a model's close choices change.
"""
# A proxy from the environment must not be used for requests within this process.
_WITHOUT_PROXY = build_opener(ProxyHandler({}))


def llama(
    path: str | Path,
    options: TextOptions | None = None,
    *,
    threads: int | None = None,
    slots: int = 4,
    context: int | None = None,
    gpu_layers: int | None = None,
    embeddings: str | None = None,
) -> TextEngine:
    """Make an engine on a GGUF file. `slots` is how many requests run at once, `context` the context of each slot.

    With `embeddings` it computes those too: "mean", "cls" or "last" says how the tokens' vectors become one.

    Threads, context and GPU layers are chosen by what the machine has, if they are not given: see `hardware`.
    """
    file = Path(path)
    _require_model(file)
    hardware = read_hardware(gpus=_gpu_names())
    size = ModelSize.of(read_shape(file), file.stat().st_size)
    settings = choose_settings(hardware, size, slots=slots, threads=threads, gpu_layers=gpu_layers, context=context)
    generator = LlamaGenerator(file, settings.threads, slots, settings.context, settings.gpu_layers, embeddings)
    forwarder = HttpForwarder(name="llama", http=generator.loopback, prefix="/v1", hints=_FORWARD_HINTS)
    engine = TextEngine(generator, options, forwarder)
    engine.startup_note = settings.note(hardware)
    return engine


class LlamaGenerator:
    """Generates text with a model in this process."""

    def __init__(
        self,
        path: Path,
        threads: int,
        slots: int,
        context: int,
        gpu_layers: int = 0,
        embeddings: str | None = None,
    ) -> None:
        _require_model(path)
        self.traits = Traits(name="llama", targets=_TARGETS, continuation_cost=_CONTINUATION_COST)
        self._path = path
        self._context = context
        # The library also listens on loopback. The key keeps other processes out.
        self._key = secrets.token_hex(32)
        self._server: Any = _start_server(path, threads, slots, context, gpu_layers, self._key, embeddings)
        self._loopback: HttpClient | None = None
        self._threads = ThreadPoolExecutor(max_workers=slots, thread_name_prefix="llama")

    async def facts(self) -> ModelFacts:
        targets = tuple([target for target in _TARGETS if await honours_grammar(self.generate, target)])
        self.traits = replace(self.traits, targets=targets)
        facts = await asyncio.to_thread(facts_of_file, self._path)
        # llama.cpp limits a slot to the context that the model was trained with.
        return replace(facts, context=min(self._context, facts.context or self._context))

    async def apply_template(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> str | None:
        return None

    async def count_tokens(self, prompt: str) -> int | None:
        return len(await self.tokenize(prompt, is_prompt=True))

    async def tokenize(self, *pieces: str, is_prompt: bool) -> tuple[int, ...]:
        answer = await asyncio.to_thread(self._post, "/tokenize", tokenize_body(*pieces, is_prompt=is_prompt))
        return tuple(cast("list[int]", answer["tokens"]))

    async def detokenize(self, tokens: tuple[int, ...]) -> str | None:
        return str((await asyncio.to_thread(self._post, "/detokenize", {"tokens": tokens}))["content"])

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Send a request over loopback: the library has no function for its tokenizer."""
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._key}"}
        request = Request(f"{self._open_server.listening_address}{path}", dumps(body).encode(), headers)
        try:
            with _WITHOUT_PROXY.open(request, timeout=_TOKENIZE_TIMEOUT) as answer:
                return cast("dict[str, Any]", loads(answer.read().decode()))
        except OSError as failure:
            raise EngineError(f"cannot reach the model's tokenizer: {failure}") from failure

    async def generate(self, request: CompletionRequest) -> AsyncGenerator[Piece | CompletionEnd, None]:
        loop = asyncio.get_running_loop()
        chunks: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        stopped = threading.Event()

        def on_chunk(chunk: dict[str, Any]) -> bool:
            loop.call_soon_threadsafe(chunks.put_nowait, chunk)
            return stopped.is_set()

        body = completion_body(request)
        completion = loop.run_in_executor(self._threads, self._open_server.handle_completions, body, on_chunk)
        completion.add_done_callback(lambda _: chunks.put_nowait(None))
        decoder = CompletionDecoder(request.on_progress)
        try:
            while (chunk := await chunks.get()) is not None:
                for piece in decoder.decode(chunk):
                    yield piece
            completion.result()
            if decoder.end:
                yield decoder.end
        finally:
            stopped.set()

    def loopback(self) -> HttpClient:
        """Return a client for the library's own server, for what is forwarded to it."""
        address = self._open_server.listening_address
        if self._loopback is None:
            self._loopback = HttpClient(address, {"Authorization": f"Bearer {self._key}"}, SILENT_DEADLINES)
        return self._loopback

    async def close(self) -> None:
        """Free the model. Its memory is not Python's, so the garbage collector would keep it for a long time."""
        if self._loopback is not None:
            await self._loopback.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._server = None

    @property
    def _open_server(self) -> Any:
        if self._server is None:
            raise EngineError("the engine is closed", code="engine_closed", hint="Load it again.")
        return self._server


def _require_model(path: Path) -> None:
    if not path.is_file():
        raise EngineError(
            f"there is no model file {path}",
            code="no_such_model",
            hint="Pass the path of a .gguf file, or hf:OWNER/NAME to download a model.",
        )
    # llama.cpp's own message about another file does not say what is wrong.
    require_gguf(path)


def facts_of_file(path: Path) -> ModelFacts:
    """Read the facts about a model from its GGUF file."""
    metadata = read_metadata(path)
    tokens = cast("list[str]", metadata.get("tokenizer.ggml.tokens") or [])
    token_types = cast("list[int]", metadata.get("tokenizer.ggml.token_type") or [])

    def token_text(key: str) -> str:
        token_id = metadata.get(f"tokenizer.ggml.{key}_token_id")
        return tokens[token_id] if isinstance(token_id, int) and 0 <= token_id < len(tokens) else ""

    return ModelFacts(
        name=str(metadata.get("general.name", path.stem)),
        template=str(metadata.get("tokenizer.chat_template", "")),
        # llama.cpp adds it to the prompt itself if the model expects it.
        bos=""
        if metadata.get("tokenizer.ggml.add_bos_token", metadata.get("tokenizer.ggml.model") == "llama")
        else token_text("bos"),
        eos=token_text("eos"),
        end_tokens=end_tokens_of(metadata),
        context=int(metadata.get(f"{metadata.get('general.architecture')}.context_length") or 0),
        special_tokens={
            text: n for n, (text, kind) in enumerate(zip(tokens, token_types, strict=False)) if kind == _CONTROL_TOKEN
        },
        find_special_texts=finder_of(special_texts_of(metadata)),
    )


def end_tokens_of(metadata: Mapping[str, Any]) -> tuple[int, ...]:
    """Return every token that ends a turn: llama.cpp's matcher knows one of them, and models may write another."""
    token_ids = (metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot", "eom"))
    return tuple(dict.fromkeys(token for token in token_ids if isinstance(token, int)))


def _library() -> Any:
    try:
        import xllamacpp  # pyright: ignore[reportMissingTypeStubs]
    except ImportError as missing:
        raise UnsupportedError(
            "llama.cpp is not installed", code="missing_package", hint='pip install "ferrule[llama]"'
        ) from missing
    return cast("Any", xllamacpp)


def _gpu_names() -> tuple[str, ...]:
    """The GPUs that this build of llama.cpp can use."""
    devices = cast("list[Mapping[str, Any]]", _library().get_device_info())
    return tuple(str(device["name"]) for device in devices if str(device["type"].name).endswith("_GPU"))


def _start_server(
    path: Path, threads: int, slots: int, context: int, gpu_layers: int, key: str, embeddings: str | None
) -> Any:
    library = _library()
    params = library.CommonParams()
    params.model.path = str(path)
    params.n_parallel = slots
    params.n_ctx = context * slots
    # How often progress is reported, and how soon a request that nobody waits for any more is stopped.
    params.n_batch = _BATCH
    params.n_gpu_layers = gpu_layers
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    params.warmup = False
    params.verbosity = 0
    params.api_keys = [key]
    # Answers that are forwarded name the model: by default with the path of its file.
    params.model_alias = {path.stem}
    # Its answer is the only sign that the server takes work: see _await_start.
    params.endpoint_metrics = True
    if embeddings is not None:
        params.embedding = True
        params.pooling_type = getattr(library.llama_pooling_type, f"LLAMA_POOLING_TYPE_{embeddings.upper()}")
    try:
        server = library.Server(params)
    except RuntimeError as failure:
        raise EngineError(
            f"llama.cpp cannot load {path.name}: {failure}",
            code="bad_model_file",
            hint="Download the file again, or try a smaller context or fewer slots: llama:PATH?context=2048&slots=1",
        ) from failure
    _await_start(server)
    return server


def _await_start(server: Any) -> None:
    """Wait until the server's thread takes work.

    The library returns the server before. One that is closed then misses the sign to end, and closing it waits for its
    thread for ever. The thread itself answers what its metrics are.
    """
    server.handle_metrics()
