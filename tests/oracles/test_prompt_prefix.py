"""What each family's own template keeps of a prompt when an agent's run goes on, with the reasoning replayed.

Within a turn of the user each prompt begins with the one before it, except for the last few characters, which open the
reply. At the user's next message some families drop the reasoning of the turn before, as their models were trained;
then the engine reads that turn again, and not what was before it.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise, takewhile

import pytest

from ferrule.core.call import FunctionCall, ToolCall, ToolResult
from ferrule.core.message import ChatMessage, Reasoning, Role, Text
from ferrule.core.tool import ToolDefinition
from ferrule.engines.generator import ModelFacts
from ferrule.wire.registry import get_format
from lab.paths import CACHE
from lab.template_formats import TEMPLATES
from laws.forged_turns import builder_of, prompt_of

pytestmark = pytest.mark.oracle

# They need a variable of their own.
_UNUSABLE = {"fireworks-ai-llama-3-firefunction-v2.jinja", "CohereForAI-c4ai-command-r-plus-tool_use.jinja"}
FILES = sorted(TEMPLATES.keys() - _UNUSABLE)
_OPENING = 40
"""What opens a reply, or closes it before calls or results follow."""
# Drops the reasoning before every call but the last two.
DROPS_EACH_STEP = {"LFM2.5-Instruct.jinja"}
# The reasoning before the calls of a turn is there until the user writes again.
DROPS_AT_A_NEW_TURN = {
    "GLM-4.6.jinja",
    "GLM-4.7-Flash.jinja",
    "Kimi-K2-Thinking.jinja",
    "LFM2.5-8B-A1B.jinja",
    "MiniMax-M2.jinja",
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.jinja",
    "Qwen-Qwen3-0.6B.jinja",
    "Qwen3.5-4B.jinja",
    "StepFun3.5-Flash.jinja",
    "google-gemma-4-31B-it-interleaved.jinja",
    "google-gemma-4-31B-it.jinja",
    "openai-gpt-oss-120b.jinja",
    "openbmb-MiniCPM5-1B.jinja",
}
# Writes the tools before the user's last message.
MOVES_ITS_TOOLS = {"Mistral-Small-3.2-24B-Instruct-2506.jinja", "mistralai-Mistral-Nemo-Instruct-2407.jinja"}
LOOK = ToolDefinition("look", "Looks.", {"type": "object", "properties": {"place": {"type": "string"}}})
STEPS = 3


@cache
def prompts(file: str) -> tuple[str, ...]:
    """The prompts of a turn with three calls, and of the user's next message."""
    source = (CACHE / "templates" / file).read_text(encoding="utf-8")
    format = get_format(TEMPLATES[file].format or "hermes")
    builder = builder_of(ModelFacts(template=source, bos="<s>", eos="</s>"), format)
    messages = [ChatMessage.system("Be brief."), ChatMessage.user("How is Bern?")]
    ends = [len(messages)]
    for step in range(STEPS):
        id = format.ids.sample("look", step)
        call = ToolCall(id, FunctionCall("look", '{"place": "Bern"}'))
        messages.append(ChatMessage(Role.ASSISTANT, (Reasoning(f"I think in step {step}."), call)))
        messages.append(ChatMessage(Role.TOOL, (ToolResult(id, "look", f"It is {step} degrees."),)))
        ends.append(len(messages))
    messages.append(ChatMessage(Role.ASSISTANT, (Reasoning("I think at last."), Text("It is warm."))))
    messages.append(ChatMessage.user("And Rome?"))
    ends.append(len(messages))
    return tuple(prompt_of(builder, (messages[:end], (LOOK,))).text for end in ends)


def lost(before: str, after: str) -> str:
    """The end of a prompt with which the next one does not begin."""
    return before[sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))) :]


@pytest.mark.parametrize("file", FILES)
def test_within_a_turn_each_prompt_begins_with_the_one_before(file: str) -> None:
    within = prompts(file)[:-1]
    losses = [lost(before, after) for before, after in pairwise(within)]
    if file in DROPS_EACH_STEP:
        # Only since the step whose reasoning is dropped.
        assert all("step 0" in one or "step 1" in one or len(one) <= _OPENING for one in losses)
    else:
        assert [len(one) for one in losses if len(one) > _OPENING] == []


@pytest.mark.parametrize("file", FILES)
def test_at_a_new_turn_only_families_that_drop_reasoning_or_move_their_tools_begin_otherwise(file: str) -> None:
    last, after = prompts(file)[-2:]
    loss = lost(last, after)
    if file in DROPS_AT_A_NEW_TURN:
        assert "I think in step 0." in last
        assert "I think in step 0." not in after
        # What was before the turn stays: the tools, the system's text and the user's question.
        assert "How is Bern?" not in loss
        assert "Looks." not in loss
    elif file in MOVES_ITS_TOOLS:
        assert "How is Bern?" in loss
    else:
        assert len(loss) <= _OPENING or file in DROPS_EACH_STEP


@pytest.mark.parametrize("file", FILES)
def test_reasoning_is_replayed_within_a_turn_by_every_family_that_replays_it_at_all(file: str) -> None:
    within = prompts(file)[:-1]
    replays = [f"I think in step {STEPS - 1}." in within[-1], "I think in step 0." in within[1]]
    assert replays[0] == replays[1]
