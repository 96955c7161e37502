"""What `ferrule doctor ENGINE` examines: whether it loads, answers and makes a valid call, and what to change."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ferrule.cli import terminal
from ferrule.core.request import ToolChoice
from ferrule.engines.engine import Engine
from ferrule.engines.registry import ENGINES, address_and_model, check_engine_spec, load_engine
from ferrule.errors import DefinitionError, FerruleError
from ferrule.schema.tool_decorator import tool
from ferrule.server.secret_mask import mask_text

WORKS, FAILED = "works", "failed"
_ADDRESS = re.compile(r"(?:localhost|[\w.\-]+):\d+(?:/.*)?|localhost(?:/.*)?")
_MAX_TOKENS = 128


@dataclass(frozen=True, slots=True)
class EngineFinding:
    """What one step showed. `advice` says what to change; empty if nothing."""

    name: str
    verdict: str
    evidence: str
    advice: str = ""


def url_in(target: str) -> str:
    """Return the URL, if the target is one; empty if it is an engine. Raises `DefinitionError` if it is neither."""
    kind = target.partition(":")[0]
    if kind in ENGINES:
        check_engine_spec(target)
        return ""
    if target.startswith(("http://", "https://")):
        return target
    if _ADDRESS.fullmatch(target):
        return f"http://{target}"
    if target.endswith(".gguf") or Path(target).is_file():
        raise DefinitionError(f"{target} is a file, not an engine", hint=f"Write llama:{target}.")
    try:
        check_engine_spec(target)
    except DefinitionError as unknown:
        raise DefinitionError(
            f"{target!r} is neither a URL nor an engine",
            hint=f"Write http://HOST:PORT for a server, or an engine. {unknown.hint}",
        ) from None
    return ""


def examine_engine(name: str) -> list[EngineFinding]:
    """Load an engine and let it make one call. Stops at the first step that fails."""
    try:
        with terminal.status("loading"):
            engine = load_engine(name)
    except FerruleError as error:
        return [_failed("loads", error)]
    with engine:
        findings = [EngineFinding("loads", WORKS, engine.startup_note or engine.traits.name)]
        for step in (_answer, _call):
            try:
                with terminal.status("asking"):
                    findings.append(step(engine))
            except FerruleError as error:
                return [*findings, _failed(step.__name__.strip("_"), error)]
    return findings


def endpoint_hint(name: str) -> str:
    """How to examine the server behind an engine too; empty if there is none."""
    url = address_and_model(name)[0]
    return f"To test which options its server honours: ferrule doctor {url}" if url else ""


# A weak model would fill a free text until max_tokens, and show nothing of the engine.
@tool
def get_weather(city: Literal["Paris", "Rome"]) -> str:
    """The weather of a city."""
    return f"{city}: sunny"


def _answer(engine: Engine) -> EngineFinding:
    reply = engine.ask_sync("Say hello in one word.", max_tokens=16)
    if reply.text.strip() or reply.reasoning.strip():
        return EngineFinding("answer", WORKS, f"It said {reply.text.strip()[:40]!r}.")
    advice = "Check the model's chat template: ferrule inspect shows what it reads"
    return EngineFinding("answer", FAILED, "It answered with nothing.", advice)


def _call(engine: Engine) -> EngineFinding:
    question = "How is the weather in Rome?"
    reply = engine.ask_sync(
        question,
        tools=[get_weather],
        tool_choice=ToolChoice.required(),
        parallel_tool_calls=False,
        max_tokens=_MAX_TOKENS,
    )
    if reply.calls:
        return EngineFinding("call", WORKS, str(reply.calls[0].receipt or "It made a valid call."))
    advice = (
        "Use a larger model or more max_tokens; an engine with a grammar (llama, vllm, sglang) always makes the call"
    )
    return EngineFinding("call", FAILED, "A call was required, and no valid call came.", advice)


def _failed(name: str, error: FerruleError) -> EngineFinding:
    return EngineFinding(name, FAILED, mask_text(error.message), error.hint.rstrip("."))
