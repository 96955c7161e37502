"""vLLM over HTTP: raw completions with our prompt and our parser, held by its backend for grammars.

One server has one such backend, xgrammar unless it was started otherwise or an earlier request has needed guidance
(llguidance). The first takes a structural tag, the second Lark, and neither the other's: which it is, is tried.

Its own tool parsers and its own notion of `tool_choice` are not used. Its chat template is: vLLM does not give it out,
but turns a conversation into tokens and tokens into text when asked. What serves vLLM's API without that (Ray Serve
LLM) needs a `checkpoint` whose template is the same, or gets ChatML.
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
from ferrule.engines.checkpoint.special_tokens import all_marks, ends_among, marks_among
from ferrule.engines.completions import streamed
from ferrule.engines.engine import Traits
from ferrule.engines.generator import Ended, Grammar, ModelFacts, Piece, Writing
from ferrule.engines.grammar_probe import sings
from ferrule.engines.http import PATIENT, Deadlines, Http
from ferrule.engines.profile_file import price_at
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.errors import EngineError

_Found = TypeVar("_Found")
_FIELDS: Mapping[str, str] = {"structural_tag": "structural_tag", "lark": "grammar"}
"""What a grammar is sent as, by its language; the first that the server is held by is used."""
# In tokens, as the doctor found it; used where nobody has asked the doctor.
_GOING_ON = 1.0
# VLLM_MAX_STOP_STRINGS, where nobody has set it: more are refused.
_FEW_STOPS = 4
_MANY_STOPS = tuple(f"<|stop {number}|>" for number in range(256))
# What llguidance takes for a special token whatever the tokenizer says, if it is a token at all.
_TAG = re.compile("<.*>", re.DOTALL)


def vllm(
    url: str,
    options: TextOptions | None = None,
    *,
    model: str | None = None,
    key: str | None = None,
    checkpoint: str | Path | None = None,
    deadlines: Deadlines = PATIENT,
) -> TextEngine:
    """An engine on a vLLM server at `url`, or on anything that serves vLLM's API, such as Ray Serve LLM."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    http = Http(url.rstrip("/").removesuffix("/v1"), headers, deadlines)
    return TextEngine(VllmGenerator(http, model, Path(checkpoint) if checkpoint else None), options)


class VllmGenerator:
    """Continues text on vLLM."""

    def __init__(self, http: Http, model: str | None = None, checkpoint: Path | None = None) -> None:
        going_on = price_at(http.base, model or "", _GOING_ON)
        self.traits = Traits(name="vllm", targets=tuple(_FIELDS), going_on=going_on, stops=_FEW_STOPS)
        self._http = http
        self._model = model
        self._checkpoint = read_checkpoint(checkpoint) if checkpoint else None
        self._renders = self._checkpoint is None

    async def facts(self) -> ModelFacts:
        listed = cast("list[Mapping[str, Any]]", (await self._http.get("/v1/models"))["data"])
        self._model = self._model or str(listed[0]["id"])
        found = await self._find_matcher()
        context = next((int(one.get("max_model_len") or 0) for one in listed if one["id"] == self._model), 0)
        if self._checkpoint is not None:
            known = self._checkpoint
            return replace(
                found, name=self._model, template=known.template, bos=known.bos, eos=known.eos, context=context
            )
        if await _unless_refused(self._tokens([{"role": "user", "content": "Hello."}], None)) is None:
            self._renders = False
        return replace(found, name=self._model, shows_its_template=self._renders, context=context)

    async def _find_matcher(self) -> ModelFacts:
        """Which backend holds grammars here; gives the tokens that it must be told."""
        held = await self._held_by()
        is_llguidance = held == ("lark",)
        told = await self._marks() if is_llguidance else ModelFacts()
        # llguidance breaks off where a special token is spelled out, so a tokenizer that cannot be asked rules it out.
        self.traits = replace(self.traits, targets=held if told else ())
        if told and is_llguidance:
            # Unasked, forced text is skipped only there.
            self.traits = replace(self.traits, stops=await self._most_stops())
        return told or ModelFacts()

    async def _most_stops(self) -> int:
        """How many texts a request may be stopped by here, as far as it was seen."""
        many = Writing(prompt="Say hello.", stop=_MANY_STOPS, max_tokens=1)
        return _FEW_STOPS if await _unless_refused(self._written(many)) is None else len(_MANY_STOPS)

    async def _held_by(self) -> tuple[str, ...]:
        for target in _FIELDS:
            if await sings(self.write, target):
                return (target,)
        return ()

    async def _marks(self) -> ModelFacts | None:
        """The marks that are special tokens to llguidance, and the ends; None where the tokenizer cannot be asked."""
        cut = await self._cut(all_marks(), return_token_strs=True)
        if cut is None or not cut.get("token_strs"):
            return None
        pieces = [*zip(cut["token_strs"], cast("list[int]", cut["tokens"]), strict=True)]
        specials = {
            text: token
            for text, token in marks_among(pieces).items()
            if _TAG.fullmatch(text) or await self._is_left_out(token)
        }
        return ModelFacts(specials=specials, ends=ends_among(pieces))

    async def _is_left_out(self, token: int) -> bool:
        """Whether the model's tokenizer calls a token special: then it is left out of a text without such."""
        asked = Writing(prompt="Say hello.", grammar=Grammar("lark", f"start: <[{token}]>\n"), max_tokens=1)
        pieces = await self._written(replace(asked, extra={"skip_special_tokens": True}))
        return not any(piece.text for piece in pieces if isinstance(piece, Piece))

    async def _written(self, writing: Writing) -> list[Piece | Ended]:
        return [piece async for piece in self.write(writing)]

    async def templated(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> str | None:
        if not self._renders:
            return None
        tokens = await self._tokens(messages, tools)
        return await self._text(tokens)

    async def _text(self, tokens: list[int]) -> str:
        return str((await self._http.post("/detokenize", {"model": self._model, "tokens": tokens}))["prompt"])

    async def _tokens(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> list[int]:
        spelled = [_as_taken(message) for message in messages]
        body = {"model": self._model, "messages": spelled, "add_generation_prompt": True}
        counted = await self._http.post("/tokenize", {**body, **({"tools": tools} if tools else {})})
        return cast("list[int]", counted["tokens"])

    async def count(self, prompt: str) -> int | None:
        cut = await self._cut(prompt)
        return None if cut is None else int(cut["count"])

    async def cut(self, text: str, *, is_prompt: bool) -> tuple[int, ...] | None:
        cut = await self._cut(text)
        return None if cut is None else tuple(cast("list[int]", cut["tokens"]))

    async def spelled(self, tokens: tuple[int, ...]) -> str | None:
        # Some tokenizers leave the space out that a text begins with; what stands behind something keeps it.
        both = await _unless_refused(asyncio.gather(self._text([*tokens]), self._text([*tokens, *tokens])))
        return None if both is None else both[1][len(both[0]) :]

    async def _cut(self, prompt: str, **more: bool) -> Mapping[str, Any] | None:
        """A text in tokens; None where vLLM's API is served without its tokenizer (Ray Serve LLM)."""
        body = {"model": self._model, "prompt": prompt, "add_special_tokens": False, **more}
        return await _unless_refused(self._http.post("/tokenize", body))

    async def write(self, writing: Writing) -> AsyncGenerator[Piece | Ended, None]:
        async for piece in streamed(self._http, "/v1/completions", self._body(writing)):
            yield piece

    async def close(self) -> None:
        await self._http.close()

    def _body(self, writing: Writing) -> dict[str, Any]:
        grammar = writing.grammar
        held = {"structured_outputs": {_FIELDS[grammar.target]: grammar.text}} if grammar else {}
        return {
            "model": self._model,
            "prompt": writing.read,
            "max_tokens": writing.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            # The prompt holds the model's own marks already, written by its template.
            "add_special_tokens": False,
            # Marks may be special tokens of the model, and the parser must see them.
            "skip_special_tokens": False,
            "spaces_between_special_tokens": False,
            **({"return_token_ids": True} if writing.is_hole else {}),
            **writing.sampling,
            **held,
            **writing.extra,
        }


def _as_taken(message: dict[str, Any]) -> dict[str, Any]:
    """A message with its calls' arguments as JSON text, which vLLM demands and itself undoes for the template."""
    if "tool_calls" not in message:
        return message
    calls = cast("list[dict[str, Any]]", message["tool_calls"])
    return {**message, "tool_calls": [{**call, "function": _with_text(call["function"])} for call in calls]}


def _with_text(function: dict[str, Any]) -> dict[str, Any]:
    given = function["arguments"]
    return {**function, "arguments": given if isinstance(given, str) else dumps(given)}


async def _unless_refused(asked: Awaitable[_Found]) -> _Found | None:
    """What came of it; None where the server does not take such a request."""
    try:
        return await asked
    except EngineError as refusal:
        if refusal.code != "engine_refused":
            raise
        return None
