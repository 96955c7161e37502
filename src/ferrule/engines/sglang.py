"""The `sglang` engine: SGLang's `/generate` over HTTP, with our prompt and parser and xgrammar's structural tags.

SGLang does not publish its chat template and applies it only behind its chat API. Pass a `checkpoint` (a model's
folder, a GGUF file or a .jinja file) to render the prompt as the model expects it. Without one the prompt is ChatML
with the tools explained, and receipts say so. Its tokenizer puts the model's first token before every prompt, even if
the prompt already has it.

Ferrule is not tested with a running SGLang: request and response shapes follow its source code (0.5.23), and the tests
answer with them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

from ferrule.dialects.json_stream import SseObjects
from ferrule.engines.checkpoint.checkpoint import read_checkpoint
from ferrule.engines.checkpoint.special_tokens import finder_of
from ferrule.engines.completions import raise_on_error
from ferrule.engines.engine import Traits
from ferrule.engines.forward import HttpForwarder
from ferrule.engines.generator import CompletionEnd, CompletionRequest, ModelFacts, Piece
from ferrule.engines.http import SILENT_DEADLINES, Deadlines, HttpClient
from ferrule.engines.profile import continuation_cost_at
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.errors import EngineError

# The other backends accept only an older kind of structural tag, or none.
_GRAMMAR_BACKEND = "xgrammar"
_CONTINUATION_COST: float | None = None


def sglang(
    url: str,
    options: TextOptions | None = None,
    *,
    checkpoint: str | Path | None = None,
    key: str | None = None,
    deadlines: Deadlines = SILENT_DEADLINES,
) -> TextEngine:
    """Make an engine on an SGLang server at `url`."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    http = HttpClient(url.rstrip("/").removesuffix("/v1"), headers, deadlines)
    forwarder = HttpForwarder(name="sglang", http=lambda: http, prefix="/v1", find_model=lambda: _find_model(http))
    return TextEngine(SglangGenerator(http, Path(checkpoint) if checkpoint else None), options, forwarder)


async def _find_model(http: HttpClient) -> str:
    return str((await http.get("/v1/models"))["data"][0]["id"])


class SglangGenerator:
    """Generates text on SGLang."""

    def __init__(self, http: HttpClient, checkpoint: Path | None = None) -> None:
        continuation_cost = continuation_cost_at(http.base, "", _CONTINUATION_COST)
        self.traits = Traits(
            name="sglang", targets=("structural_tag",), continuation_cost=continuation_cost, reads_silently=True
        )
        self._http = http
        self._checkpoint = read_checkpoint(checkpoint) if checkpoint else None
        self._is_incremental = False

    async def facts(self) -> ModelFacts:
        model = await self._http.get("/get_model_info")
        server = cast("Mapping[str, Any]", await self._http.get("/server_info"))
        # With this server setting, chunks contain only the new text instead of all text so far.
        self._is_incremental = server.get("incremental_streaming_output") is True
        if server.get("grammar_backend") not in (None, _GRAMMAR_BACKEND):
            self.traits = Traits(name="sglang", reads_silently=True)
        name, checkpoint = str(model.get("model_path") or ""), self._checkpoint
        if checkpoint is None:
            return ModelFacts(name=name)
        return ModelFacts(
            name=name,
            template=checkpoint.template,
            bos=checkpoint.bos,
            eos=checkpoint.eos,
            find_special_texts=finder_of(checkpoint.special_texts) if checkpoint.special_texts else None,
        )

    async def apply_template(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> str | None:
        return None

    async def count_tokens(self, prompt: str) -> int | None:
        # No route of its source code that was tried gives access to the tokenizer.
        return None

    async def tokenize(self, *pieces: str, is_prompt: bool) -> tuple[int, ...] | None:
        return None

    async def detokenize(self, tokens: tuple[int, ...]) -> str | None:
        return None

    async def generate(self, request: CompletionRequest) -> AsyncGenerator[Piece | CompletionEnd, None]:
        framing, length, tokens = SseObjects(), 0, 0
        async with aclosing(self._http.stream("/generate", _body(request))) as received:
            async for data in received:
                for chunk in framing.feed(data):
                    text, meta = _parse_chunk(chunk)
                    fresh = text if self._is_incremental else text[length:]
                    total = int(meta.get("completion_tokens") or 0)
                    if fresh:
                        yield Piece(fresh, max(total - tokens, 0))
                    length, tokens = max(length, len(text)), max(tokens, total)
                    if meta.get("finish_reason"):
                        yield _end_of(meta)

    async def close(self) -> None:
        await self._http.close()


# Fields that have another name in SGLang.
_FIELD_NAMES = {"seed": "sampling_seed"}


def _body(request: CompletionRequest) -> dict[str, Any]:
    sampling_fields = {_FIELD_NAMES.get(name, name): value for name, value in request.sampling.items()}
    grammar_field = {"structural_tag": request.grammar.text} if request.grammar else {}
    sampling = {
        "max_new_tokens": request.max_tokens,
        # Markers may be special tokens of the model, and the parser must see them unchanged.
        "skip_special_tokens": False,
        "spaces_between_special_tokens": False,
        **sampling_fields,
        **grammar_field,
    }
    return {"text": request.prompt, "sampling_params": sampling, "stream": True}


def _parse_chunk(chunk: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    raise_on_error(chunk)
    meta = chunk.get("meta_info")
    return str(chunk.get("text") or ""), cast("Mapping[str, Any]", meta) if isinstance(meta, Mapping) else {}


def _end_of(meta: Mapping[str, Any]) -> CompletionEnd:
    reason = cast("Mapping[str, Any]", meta["finish_reason"])
    if reason.get("type") == "abort":
        raise EngineError(f"the engine aborted the request: {reason.get('message') or 'it gave no reason'}")
    counts = meta.get("prompt_tokens"), meta.get("completion_tokens"), meta.get("cached_tokens")
    return CompletionEnd(reason.get("type") == "length", *counts)
