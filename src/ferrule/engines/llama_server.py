"""llama-server over HTTP: GBNF with trigger words, or Lark where llguidance was built in.

Which of the two it holds to is found by asking it for one word under each.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import Any, cast

from ferrule.engines.checkpoint.special_tokens import Cut, all_marks, ends_among, marks_among
from ferrule.engines.completions import streamed
from ferrule.engines.engine import Traits
from ferrule.engines.generator import Ended, ModelFacts, Piece, Writing
from ferrule.engines.grammar_probe import sings
from ferrule.engines.http import PATIENT, Deadlines, Http
from ferrule.engines.llama_body import cutting_body, streaming_body
from ferrule.engines.profile_file import price_at
from ferrule.engines.text.engine import TextEngine, TextOptions

_TARGETS = ("lark", "gbnf")
# In tokens, as the doctor found it; used where nobody has asked the doctor.
_GOING_ON = 3.0


def llama_server(
    url: str,
    options: TextOptions | None = None,
    *,
    key: str | None = None,
    deadlines: Deadlines = PATIENT,
) -> TextEngine:
    """An engine on a llama-server at `url`."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return TextEngine(LlamaServerGenerator(Http(url.rstrip("/").removesuffix("/v1"), headers, deadlines)), options)


class LlamaServerGenerator:
    """Continues text on a llama-server."""

    def __init__(self, http: Http) -> None:
        self._http = http
        self.traits = Traits(name="llama-server", targets=_TARGETS, going_on=price_at(http.base, "", _GOING_ON))

    async def facts(self) -> ModelFacts:
        props = await self._http.get("/props")
        self.traits = replace(self.traits, targets=tuple([t for t in _TARGETS if await sings(self.write, t)]))
        eos = str(props.get("eos_token") or "")
        special, plain = [await self._cut_marks(parse_special=special) for special in (True, False)]
        ordinary = marks_among(plain)
        return ModelFacts(
            name=str(props.get("model_alias") or props.get("model_path") or ""),
            template=str(props.get("chat_template_tool_use") or props.get("chat_template") or ""),
            bos=str(props.get("bos_token") or ""),
            eos=eos,
            # A model may end its turn with another token than this one, and only this one is the end to the matcher.
            ends=tuple(dict.fromkeys((*await self._token(eos), *ends_among(special)))),
            # What is one token only where special ones are looked for.
            specials={text: token for text, token in marks_among(special).items() if text not in ordinary},
            context=_context(props),
        )

    async def templated(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> str | None:
        body = {"messages": messages, **({"tools": tools} if tools else {})}
        answer = await self._http.post("/apply-template", body)
        return str(answer["prompt"])

    async def count(self, prompt: str) -> int | None:
        return len(await self.cut(prompt, is_prompt=True))

    async def cut(self, text: str, *, is_prompt: bool) -> tuple[int, ...]:
        answer = await self._http.post("/tokenize", cutting_body(text, is_prompt=is_prompt))
        return tuple(cast("list[int]", answer["tokens"]))

    async def spelled(self, tokens: tuple[int, ...]) -> str | None:
        return str((await self._http.post("/detokenize", {"tokens": tokens}))["content"])

    async def write(self, writing: Writing) -> AsyncGenerator[Piece | Ended, None]:
        async for piece in streamed(self._http, "/v1/completions", streaming_body(writing)):
            yield piece

    async def close(self) -> None:
        await self._http.close()

    async def _cut_marks(self, *, parse_special: bool) -> list[Cut]:
        body = {"content": all_marks(), "add_special": False, "parse_special": parse_special, "with_pieces": True}
        tokens = cast("list[int | Mapping[str, Any]]", (await self._http.post("/tokenize", body))["tokens"])
        # A server that is too old to tell pieces gives numbers alone.
        return [(cut["piece"], int(cut["id"])) for cut in tokens if not isinstance(cut, int)]

    async def _token(self, text: str) -> tuple[int, ...]:
        """The id of a special token; nothing where the text is not one."""
        if not text:
            return ()
        tokens = await self.cut(text, is_prompt=False)
        return tokens if len(tokens) == 1 else ()


def _context(props: Mapping[str, Any]) -> int:
    """Of one slot."""
    settings = cast("Mapping[str, Any]", props.get("default_generation_settings") or {})
    return int(settings.get("n_ctx") or 0)
