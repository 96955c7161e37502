"""The `vllm` engine: raw completions of vLLM over HTTP, with our prompt and parser and vLLM's grammar backend.

A server has one grammar backend: xgrammar, unless it was started with another or an earlier request needed guidance
(llguidance). xgrammar accepts structural tags, guidance accepts Lark, and neither accepts the other's language. Which
one a server has is tested.

vLLM's own tool parsers and `tool_choice` are not used, but its chat template is. vLLM does not publish the template,
but it has endpoints that turn a conversation into tokens and tokens into text. A server without these (Ray Serve LLM)
needs a `checkpoint` with the same template, or ChatML is used.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

from ferrule.core.json_text import dumps
from ferrule.engines.checkpoint.checkpoint import read_checkpoint
from ferrule.engines.checkpoint.special_tokens import (
    call_tokens_among,
    end_tokens_among,
    special_texts_among,
    special_token_texts,
)
from ferrule.engines.completions import stream_completion
from ferrule.engines.engine import Traits
from ferrule.engines.forward import HttpForwarder
from ferrule.engines.generator import CompletionEnd, CompletionRequest, Grammar, ModelFacts, Piece
from ferrule.engines.grammar import honours_grammar
from ferrule.engines.http import SILENT_DEADLINES, Deadlines, HttpClient
from ferrule.engines.profile import continuation_cost_at
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.errors import EngineError
from ferrule.wire.neutral_text import likely_special_texts

_T = TypeVar("_T")
_GRAMMAR_FIELDS: Mapping[str, str] = {"structural_tag": "structural_tag", "lark": "grammar"}
"""The request field for a grammar, by language. The first language that the server enforces is used."""
# In tokens, measured by the doctor; used if there is no profile of the endpoint.
_CONTINUATION_COST = 1.0
# The default of VLLM_MAX_STOP_STRINGS; a request with more is refused.
_DEFAULT_MAX_STOPS = 4
_MANY_STOPS = tuple(f"<|stop {number}|>" for number in range(256))
# Each piece of a prompt is one request to the tokenizer.
_MAX_PIECES = 256
# llguidance treats every token of this form as special, whatever the tokenizer says.
_TAG = re.compile("<.*>", re.DOTALL)


def vllm(
    url: str,
    options: TextOptions | None = None,
    *,
    model: str | None = None,
    key: str | None = None,
    checkpoint: str | Path | None = None,
    deadlines: Deadlines = SILENT_DEADLINES,
) -> TextEngine:
    """Make an engine on a vLLM server at `url`, or on any server with vLLM's API, such as Ray Serve LLM."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    http = HttpClient(url.rstrip("/").removesuffix("/v1"), headers, deadlines)
    generator = VllmGenerator(http, model, Path(checkpoint) if checkpoint else None)
    forwarder = HttpForwarder(name="vllm", http=lambda: http, prefix="/v1", find_model=generator.find_model)
    return TextEngine(generator, options, forwarder)


class VllmGenerator:
    """Generates text on vLLM."""

    def __init__(self, http: HttpClient, model: str | None = None, checkpoint: Path | None = None) -> None:
        continuation_cost = continuation_cost_at(http.base, model or "", _CONTINUATION_COST)
        self.traits = Traits(
            name="vllm",
            targets=tuple(_GRAMMAR_FIELDS),
            continuation_cost=continuation_cost,
            max_stops=_DEFAULT_MAX_STOPS,
            reads_silently=True,
        )
        self._http = http
        self._model = model
        self._checkpoint = read_checkpoint(checkpoint) if checkpoint else None
        self._can_render = self._checkpoint is None

    async def facts(self) -> ModelFacts:
        models = cast("list[Mapping[str, Any]]", (await self._http.get("/v1/models"))["data"])
        self._model = self._model or str(models[0]["id"])
        facts = replace(await self._find_matcher(), find_special_texts=self._find_special_texts)
        context = next((int(model.get("max_model_len") or 0) for model in models if model["id"] == self._model), 0)
        if self._checkpoint is not None:
            checkpoint = self._checkpoint
            return replace(
                facts,
                name=self._model,
                template=checkpoint.template,
                bos=checkpoint.bos,
                eos=checkpoint.eos,
                context=context,
            )
        if await _none_if_refused(self._tokenize_messages([{"role": "user", "content": "Hello."}], None)) is None:
            self._can_render = False
        return replace(facts, name=self._model, renders_on_server=self._can_render, context=context)

    async def find_model(self) -> str:
        """Return the name that requests use: the one given, or that of the first model of the server."""
        if self._model is None:
            self._model = str((await self._http.get("/v1/models"))["data"][0]["id"])
        return self._model

    async def _find_matcher(self) -> ModelFacts:
        """Find the server's grammar backend and return the tokens that grammars for it must name."""
        targets = await self._find_targets()
        is_llguidance = targets == ("lark",)
        facts = await self._special_tokens() if is_llguidance else ModelFacts()
        # llguidance stops where a special token is spelled out, so without a tokenizer API it cannot be used.
        self.traits = replace(self.traits, targets=targets if facts else ())
        if facts and is_llguidance:
            # Only there is forced text skipped by default, so only there does the number of stops matter.
            self.traits = replace(self.traits, max_stops=await self._find_max_stops())
        return facts or ModelFacts()

    async def _find_max_stops(self) -> int:
        """Find how many stop strings a request may have, as far as it was tested."""
        many = CompletionRequest(prompt="Say hello.", stop=_MANY_STOPS, max_tokens=1)
        return _DEFAULT_MAX_STOPS if await _none_if_refused(self._collect(many)) is None else len(_MANY_STOPS)

    async def _find_targets(self) -> tuple[str, ...]:
        for target in _GRAMMAR_FIELDS:
            if await honours_grammar(self.generate, target):
                return (target,)
        return ()

    async def _special_tokens(self) -> ModelFacts | None:
        """Find the markers that are special tokens to llguidance, and the end tokens; None without a tokenizer API."""
        response = await self._tokenize(special_token_texts(), return_token_strs=True)
        if response is None or not response.get("token_strs"):
            return None
        pieces = [*zip(response["token_strs"], cast("list[int]", response["tokens"]), strict=True)]
        specials = {
            text: token
            for text, token in call_tokens_among(pieces).items()
            if _TAG.fullmatch(text) or await self._is_special(token)
        }
        return ModelFacts(special_tokens=specials, end_tokens=end_tokens_among(pieces))

    async def _is_special(self, token: int) -> bool:
        """Whether the tokenizer counts a token as special: then `skip_special_tokens` removes it from the text."""
        request = CompletionRequest(prompt="Say hello.", grammar=Grammar("lark", f"start: <[{token}]>\n"), max_tokens=1)
        pieces = await self._collect(replace(request, extra={"skip_special_tokens": True}))
        return not any(piece.text for piece in pieces if isinstance(piece, Piece))

    async def _collect(self, request: CompletionRequest) -> list[Piece | CompletionEnd]:
        return [piece async for piece in self.generate(request)]

    async def apply_template(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> str | None:
        if not self._can_render:
            return None
        tokens = await self._tokenize_messages(messages, tools)
        return await self._detokenize(tokens)

    async def _detokenize(self, tokens: list[int]) -> str:
        return str((await self._http.post("/detokenize", {"model": self._model, "tokens": tokens}))["prompt"])

    async def _tokenize_messages(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> list[int]:
        converted = [_with_text_arguments(message) for message in messages]
        body = {"model": self._model, "messages": converted, "add_generation_prompt": True}
        response = await self._http.post("/tokenize", {**body, **({"tools": tools} if tools else {})})
        return cast("list[int]", response["tokens"])

    async def count_tokens(self, prompt: str) -> int | None:
        response = await self._tokenize(prompt)
        return None if response is None else int(response["count"])

    async def tokenize(self, *pieces: str, is_prompt: bool) -> tuple[int, ...] | None:
        if len(pieces) > _MAX_PIECES:
            return None
        tokens: list[int] = []
        for piece in filter(None, pieces):
            response = await self._tokenize(piece)
            if response is None:
                return None
            tokens += cast("list[int]", response["tokens"])
        return tuple(tokens)

    async def _find_special_texts(self, text: str) -> frozenset[str]:
        response = await self._tokenize(text, return_token_strs=True)
        pieces = cast("list[object]", (response or {}).get("token_strs") or ())
        return special_texts_among(pieces, text) if pieces else likely_special_texts(text)

    async def detokenize(self, tokens: tuple[int, ...]) -> str | None:
        # Some tokenizers drop the space at the beginning of a text. The second copy is not at the beginning and keeps
        # it.
        both = await _none_if_refused(asyncio.gather(self._detokenize([*tokens]), self._detokenize([*tokens, *tokens])))
        return None if both is None else both[1][len(both[0]) :]

    async def _tokenize(self, prompt: str, **more: bool) -> Mapping[str, Any] | None:
        """Tokenize a text; None if the server has no tokenizer API (Ray Serve LLM)."""
        body = {"model": self._model, "prompt": prompt, "add_special_tokens": False, **more}
        return await _none_if_refused(self._http.post("/tokenize", body))

    def generate(self, request: CompletionRequest) -> AsyncGenerator[Piece | CompletionEnd, None]:
        return stream_completion(self._http, "/v1/completions", self._body(request))

    async def close(self) -> None:
        await self._http.close()

    def _body(self, request: CompletionRequest) -> dict[str, Any]:
        grammar = request.grammar
        grammar_field = {"structured_outputs": {_GRAMMAR_FIELDS[grammar.target]: grammar.text}} if grammar else {}
        return {
            "model": self._model,
            "prompt": request.prompt_or_tokens,
            "max_tokens": request.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            # The template has already written the model's own tokens into the prompt.
            "add_special_tokens": False,
            # Markers may be special tokens of the model, and the parser must see them.
            "skip_special_tokens": False,
            "spaces_between_special_tokens": False,
            **({"return_token_ids": True} if request.is_hole else {}),
            **request.sampling,
            **grammar_field,
            **request.extra,
        }


def _with_text_arguments(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message with arguments as JSON text, which vLLM requires and parses again for the template."""
    if "tool_calls" not in message:
        return message
    calls = cast("list[dict[str, Any]]", message["tool_calls"])
    return {**message, "tool_calls": [{**call, "function": _function_with_text(call["function"])} for call in calls]}


def _function_with_text(function: dict[str, Any]) -> dict[str, Any]:
    arguments = function["arguments"]
    return {**function, "arguments": arguments if isinstance(arguments, str) else dumps(arguments)}


async def _none_if_refused(response: Awaitable[_T]) -> _T | None:
    """Return the awaited value; None if the server refuses the request."""
    try:
        return await response
    except EngineError as refusal:
        if not refusal.is_refusal:
            raise
        return None
