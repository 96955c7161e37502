"""Writes by real models: what a call carries is what the model wrote, and nothing but the model ended it.

A model may copy badly. What it wrote is therefore read from its raw output by Python's own JSON reader, and the call
must carry the same.
"""

import json
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from rich.progress import Progress

from ferrule.bench.tables import Table
from ferrule.core.call import ToolCall
from ferrule.core.event import Event, RuleShown, WireText
from ferrule.core.message import ChatMessage
from ferrule.core.reply import Reply, fold
from ferrule.core.request import ToolCallRequest, ToolChoice
from ferrule.engines.checkpoint.gguf import read_metadata, vocabulary_of
from ferrule.engines.llama import llama
from ferrule.engines.text.engine import TextEngine
from ferrule.formats import render
from ferrule.rules.vocabulary import Vocabulary
from lab.saved_parts import SavedParts
from lab.servers import QWEN
from lab.whole_calls.agent_tools import Agent
from lab.whole_calls.contents import content
from lab.whole_calls.echo import admits

MODELS: Final = ("0.5B", "1.5B")
SIZES: Final = (100, 2_000)
# Contents that a small model can be asked to copy.
_KINDS: Final = ("prose", "code", "quotes")
_TOKENS: Final = {100: 200, 2_000: 1_200}
_CONTEXT: Final = 16_384
_ABOUT: Final = (
    "Qwen2.5-Coder-Instruct in process, one thread, temperature 0, the same tool sets, a call required. The model is "
    "asked to write a file with a content that it is shown. *Whole*: the call carries what the model wrote, as "
    "Python's JSON reader reads its raw output. *Copied*: of these, the content is also the one that it was shown. "
    "*Cut*: the budget ended inside the call, which ended with the reason `length` and without a call. "
    "*Lost*: anything else. *Bounded*: whole calls after whose value the grammar would not have "
    "admitted one more character."
)


def _weights(model: str) -> Any:
    return QWEN.with_name(QWEN.name.replace("0.5b", model.lower()))


async def _write(engine: TextEngine, agent: Agent, size: int, number: int, vocabulary: Vocabulary) -> str:
    """One write: "copied", "whole", "cut", "bounded", or what was lost."""
    wanted = content(_KINDS[number % len(_KINDS)], size, str(number), ())
    question = f"Write the file notes.txt. Its content is, to the letter:\n\n{wanted}"
    request = ToolCallRequest(
        messages=(ChatMessage.user(question),),
        tools=agent.tools,
        tool_choice=ToolChoice.one(agent.write),
        parallel_tool_calls=False,
        max_tokens=_TOKENS[size],
        temperature=0.0,
        shows_wire=True,
    )
    events: list[Event] = [event async for event in engine.stream_request(request)]
    wire = "".join(event.text for event in events if isinstance(event, WireText))
    reply = fold(events)
    if not reply.calls:
        return "cut" if reply.finish_reason.value == "length" else f"{agent.name}, {size} B: no call in {wire!r}"
    written = json.loads(wire[wire.index("{") : wire.rindex("}") + 1])["arguments"]
    (call,) = reply.calls
    if call.arguments != written:
        return f"{agent.name}, {size} B: {call.arguments!r} instead of {written!r}"
    grammar = next(event.grammar for event in events if isinstance(event, RuleShown))
    longer = {**written, agent.content: written[agent.content] + "x"}
    text = render(await engine.format(), Reply.of(ToolCall.of(agent.write, longer)), agent.tools)
    if not admits(grammar, text, longer[agent.content], vocabulary):
        return "bounded"
    return "copied" if written[agent.content] == wanted else "whole"


async def _count(model: str, agents: Sequence[Agent], size: int, runs: int, progress: Progress) -> dict[str, Any]:
    vocabulary = vocabulary_of(read_metadata(_weights(model)))
    task = progress.add_task(f"{model}, {size} B", total=runs * len(agents))
    results: Counter[str] = Counter()
    async with llama(_weights(model), threads=1, slots=1, context=_CONTEXT) as engine:
        for agent in agents:
            for number in range(runs):
                results[await _write(engine, agent, size, number, vocabulary)] += 1
                progress.advance(task)
    return dict(results)


async def real_table(
    models: Sequence[str], agents: Sequence[Agent], runs: int, saved: SavedParts, progress: Progress
) -> Table:
    rows: list[tuple[str, ...]] = []
    lost: list[str] = []
    for model in models:
        for size in SIZES:
            name = f"real {model} {size} {runs}"
            counts = dict(await saved.part(name, partial(_count, model, agents, size, runs, progress)))
            copied, whole, cut, bounded = (int(counts.pop(key, 0)) for key in ("copied", "whole", "cut", "bounded"))
            lost += counts
            cells = (runs * len(agents), whole + copied + bounded, copied, cut, bounded, sum(counts.values()))
            rows.append((f"{model}, {size} B", *map(str, cells)))
    columns = ("model and size", "writes", "whole", "copied", "cut", "bounded", "lost")
    return Table("Writes by real models", _ABOUT, columns, rows, lost)
