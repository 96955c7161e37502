"""SGLang over HTTP: its own `/generate` with our prompt and our parser, held by xgrammar's structural tag.

SGLang gives out no chat template and renders with it only behind its chat API; name a `checkpoint` (a model's folder, a
GGUF file or a .jinja file) to have the prompt written as the model expects it. Without one it is ChatML with the tools
explained, and receipts say so. Its tokenizer puts the model's first token before every prompt, also before one that
has it.

No SGLang runs where Ferrule is tested: the shapes are those of its sources (0.5.23), and the tests answer with them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

from ferrule.dialects.json_stream import SseObjects
from ferrule.engines.checkpoint.checkpoint import read_checkpoint
from ferrule.engines.completions import refuse_errors
from ferrule.engines.engine import Traits
from ferrule.engines.generator import Ended, ModelFacts, Piece, Writing
from ferrule.engines.http import PATIENT, Deadlines, Http
from ferrule.engines.profile_file import price_at
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.errors import EngineError

# The other backends take only an older kind of structural tag, or none.
_GRAMMAR_BACKEND = "xgrammar"
_GOING_ON: float | None = None


def sglang(
    url: str,
    options: TextOptions | None = None,
    *,
    checkpoint: str | Path | None = None,
    key: str | None = None,
    deadlines: Deadlines = PATIENT,
) -> TextEngine:
    """An engine on an SGLang server at `url`."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    http = Http(url.rstrip("/").removesuffix("/v1"), headers, deadlines)
    return TextEngine(SglangGenerator(http, Path(checkpoint) if checkpoint else None), options)


class SglangGenerator:
    """Continues text on SGLang."""

    def __init__(self, http: Http, checkpoint: Path | None = None) -> None:
        going_on = price_at(http.base, "", _GOING_ON)
        self.traits = Traits(name="sglang", targets=("structural_tag",), going_on=going_on)
        self._http = http
        self._checkpoint = read_checkpoint(checkpoint) if checkpoint else None
        self._is_incremental = False

    async def facts(self) -> ModelFacts:
        model = await self._http.get("/get_model_info")
        server = cast("Mapping[str, Any]", await self._http.get("/server_info"))
        # A setting of the server: chunks hold what is new, and not the whole text so far.
        self._is_incremental = server.get("incremental_streaming_output") is True
        if server.get("grammar_backend") not in (None, _GRAMMAR_BACKEND):
            self.traits = Traits(name="sglang")
        name, known = str(model.get("model_path") or ""), self._checkpoint
        return (
            ModelFacts(name=name, template=known.template, bos=known.bos, eos=known.eos)
            if known
            else ModelFacts(name=name)
        )

    async def templated(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> str | None:
        return None

    async def count(self, prompt: str) -> int | None:
        # Its tokenizer is behind no route of its sources that was tried.
        return None

    async def cut(self, text: str, *, is_prompt: bool) -> tuple[int, ...] | None:
        return None

    async def spelled(self, tokens: tuple[int, ...]) -> str | None:
        return None

    async def write(self, writing: Writing) -> AsyncGenerator[Piece | Ended, None]:
        framing, length, tokens = SseObjects(), 0, 0
        async with aclosing(self._http.stream("/generate", _body(writing))) as received:
            async for data in received:
                for chunk in framing.feed(data):
                    text, meta = _read(chunk)
                    fresh = text if self._is_incremental else text[length:]
                    written = int(meta.get("completion_tokens") or 0)
                    if fresh:
                        yield Piece(fresh, max(written - tokens, 0))
                    length, tokens = max(length, len(text)), max(tokens, written)
                    if meta.get("finish_reason"):
                        yield _ended(meta)

    async def close(self) -> None:
        await self._http.close()


# What SGLang calls otherwise.
_WORDS = {"seed": "sampling_seed"}


def _body(writing: Writing) -> dict[str, Any]:
    given = {_WORDS.get(name, name): value for name, value in writing.sampling.items()}
    held = {"structural_tag": writing.grammar.text} if writing.grammar else {}
    sampling = {
        "max_new_tokens": writing.max_tokens,
        # Marks may be special tokens of the model, and the parser must see them as the model spells them.
        "skip_special_tokens": False,
        "spaces_between_special_tokens": False,
        **given,
        **held,
    }
    return {"text": writing.prompt, "sampling_params": sampling, "stream": True}


def _read(chunk: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    refuse_errors(chunk)
    meta = chunk.get("meta_info")
    return str(chunk.get("text") or ""), cast("Mapping[str, Any]", meta) if isinstance(meta, Mapping) else {}


def _ended(meta: Mapping[str, Any]) -> Ended:
    reason = cast("Mapping[str, Any]", meta["finish_reason"])
    if reason.get("type") == "abort":
        raise EngineError(f"the engine gave up: {reason.get('message') or 'it did not say why'}")
    return Ended(reason.get("type") == "length", meta.get("prompt_tokens"), meta.get("completion_tokens"))
