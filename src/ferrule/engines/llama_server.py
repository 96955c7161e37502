"""The `llama-server` engine: llama.cpp's server over HTTP, with GBNF and trigger words, or Lark through llguidance.

Which of the two a server enforces is tested by generating one word under each (`grammar_probe`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import Any, cast

from ferrule.core.forward import ForwardApi
from ferrule.engines.checkpoint.special_tokens import (
    TokenPiece,
    call_tokens_among,
    end_tokens_among,
    special_texts_among,
    special_token_texts,
)
from ferrule.engines.completions import stream_completion
from ferrule.engines.engine import Traits
from ferrule.engines.forward import HttpForwarder
from ferrule.engines.generator import CompletionEnd, CompletionRequest, ModelFacts, Piece
from ferrule.engines.grammar import honours_grammar
from ferrule.engines.http import DEFAULT_DEADLINES, Deadlines, HttpClient
from ferrule.engines.llama_body import completion_body, tokenize_body
from ferrule.engines.profile import continuation_cost_at
from ferrule.engines.text.engine import TextEngine, TextOptions

_TARGETS = ("lark", "gbnf")
# In tokens, measured by the doctor; used if there is no profile of the endpoint.
_CONTINUATION_COST = 3.0
_FORWARD_HINTS = {
    ForwardApi.EMBEDDINGS: "Start llama-server with --embeddings, and with --pooling if the model is made for chat."
}


def llama_server(
    url: str,
    options: TextOptions | None = None,
    *,
    key: str | None = None,
    deadlines: Deadlines = DEFAULT_DEADLINES,
) -> TextEngine:
    """Make an engine on a llama-server at `url`."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    http = HttpClient(url.rstrip("/").removesuffix("/v1"), headers, deadlines)
    forwarder = HttpForwarder(name="llama-server", http=lambda: http, prefix="/v1", hints=_FORWARD_HINTS)
    return TextEngine(LlamaServerGenerator(http), options, forwarder)


class LlamaServerGenerator:
    """Generates text on a llama-server."""

    def __init__(self, http: HttpClient) -> None:
        self._http = http
        self.traits = Traits(
            name="llama-server",
            targets=_TARGETS,
            continuation_cost=continuation_cost_at(http.base, "", _CONTINUATION_COST),
        )

    async def facts(self) -> ModelFacts:
        props = await self._http.get("/props")
        self.traits = replace(
            self.traits, targets=tuple([t for t in _TARGETS if await honours_grammar(self.generate, t)])
        )
        eos = str(props.get("eos_token") or "")
        texts = special_token_texts()
        special, plain = [await self._tokenize_pieces(texts, parse_special=special) for special in (True, False)]
        ordinary = call_tokens_among(plain)
        return ModelFacts(
            name=str(props.get("model_alias") or props.get("model_path") or ""),
            template=str(props.get("chat_template_tool_use") or props.get("chat_template") or ""),
            bos=str(props.get("bos_token") or ""),
            eos=eos,
            # A model may end its turn with another token than eos, but the matcher only knows eos.
            end_tokens=tuple(dict.fromkeys((*await self._token_ids(eos), *end_tokens_among(special)))),
            # Texts that are one token only if special tokens are parsed.
            special_tokens={text: token for text, token in call_tokens_among(special).items() if text not in ordinary},
            context=_slot_context(props),
            find_special_texts=self._find_special_texts if special else None,
        )

    async def apply_template(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> str | None:
        body = {"messages": messages, **({"tools": tools} if tools else {})}
        answer = await self._http.post("/apply-template", body)
        return str(answer["prompt"])

    async def count_tokens(self, prompt: str) -> int | None:
        return len(await self.tokenize(prompt, is_prompt=True))

    async def tokenize(self, *pieces: str, is_prompt: bool) -> tuple[int, ...]:
        answer = await self._http.post("/tokenize", tokenize_body(*pieces, is_prompt=is_prompt))
        return tuple(cast("list[int]", answer["tokens"]))

    async def detokenize(self, tokens: tuple[int, ...]) -> str | None:
        return str((await self._http.post("/detokenize", {"tokens": tokens}))["content"])

    def generate(self, request: CompletionRequest) -> AsyncGenerator[Piece | CompletionEnd, None]:
        return stream_completion(self._http, "/v1/completions", completion_body(request), request.on_progress)

    async def close(self) -> None:
        await self._http.close()

    async def _find_special_texts(self, text: str) -> frozenset[str]:
        return special_texts_among((piece for piece, _ in await self._tokenize_pieces(text, parse_special=True)), text)

    async def _tokenize_pieces(self, text: str, *, parse_special: bool) -> list[TokenPiece]:
        body = {"content": text, "add_special": False, "parse_special": parse_special, "with_pieces": True}
        tokens = cast("list[int | Mapping[str, Any]]", (await self._http.post("/tokenize", body))["tokens"])
        # A server that is too old to report pieces returns only ids.
        return [(token["piece"], int(token["id"])) for token in tokens if not isinstance(token, int)]

    async def _token_ids(self, text: str) -> tuple[int, ...]:
        """The id of a special token; empty if the text is not one."""
        if not text:
            return ()
        tokens = await self.tokenize(text, is_prompt=False)
        return tokens if len(tokens) == 1 else ()


def _slot_context(props: Mapping[str, Any]) -> int:
    """The context length of one slot."""
    settings = cast("Mapping[str, Any]", props.get("default_generation_settings") or {})
    return int(settings.get("n_ctx") or 0)
