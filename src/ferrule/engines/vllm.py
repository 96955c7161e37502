"""vLLM over HTTP: raw completions with our prompt and our parser, held by xgrammar's structural tag.

Its own tool parsers and its own notion of `tool_choice` are not used. Its chat template is: vLLM does not give it out,
but turns a conversation into tokens and tokens into text when asked.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from ferrule.engines.completions import streamed
from ferrule.engines.engine import Traits
from ferrule.engines.generator import Ended, ModelFacts, Piece, Writing
from ferrule.engines.http import PATIENT, Deadlines, Http
from ferrule.engines.text import TextEngine, TextOptions


def vllm(
    url: str,
    options: TextOptions | None = None,
    *,
    model: str | None = None,
    key: str | None = None,
    deadlines: Deadlines = PATIENT,
) -> TextEngine:
    """An engine on a vLLM server at `url`, or on anything that serves vLLM's API, such as Ray Serve LLM."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return TextEngine(VllmGenerator(Http(url.rstrip("/").removesuffix("/v1"), headers, deadlines), model), options)


class VllmGenerator:
    """Continues text on vLLM."""

    traits = Traits(name="vllm", targets=("structural_tag",))

    def __init__(self, http: Http, model: str | None = None) -> None:
        self._http = http
        self._model = model

    async def facts(self) -> ModelFacts:
        listed = await self._http.get("/v1/models")
        self._model = self._model or str(listed["data"][0]["id"])
        return ModelFacts(name=self._model, shows_its_template=True)

    async def templated(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> str | None:
        body = {"model": self._model, "messages": messages, "add_generation_prompt": True}
        counted = await self._http.post("/tokenize", {**body, **({"tools": tools} if tools else {})})
        spelled = await self._http.post("/detokenize", {"model": self._model, "tokens": counted["tokens"]})
        return str(spelled["prompt"])

    async def write(self, writing: Writing) -> AsyncGenerator[Piece | Ended, None]:
        async for piece in streamed(self._http, "/v1/completions", self._body(writing)):
            yield piece

    async def close(self) -> None:
        await self._http.close()

    def _body(self, writing: Writing) -> dict[str, Any]:
        given = {
            "temperature": writing.temperature,
            "top_p": writing.top_p,
            "top_k": writing.top_k,
            "seed": writing.seed,
            "stop": list(writing.stop) or None,
        }
        held = {"structured_outputs": {"structural_tag": writing.grammar.text}} if writing.grammar else {}
        return {
            "model": self._model,
            "prompt": writing.prompt,
            "max_tokens": writing.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            # The prompt holds the model's own marks already, written by its template.
            "add_special_tokens": False,
            # Marks may be special tokens of the model, and the parser must see them.
            "skip_special_tokens": False,
            **{name: value for name, value in given.items() if value is not None},
            **held,
            **writing.extra,
        }
