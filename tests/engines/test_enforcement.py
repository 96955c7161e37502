"""What an engine would hold a tool's calls to is told before any call, and is what a receipt says after one."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from engines.tools import PLAIN_TEMPLATE, TAGS, WEATHER, asked
from ferrule import ToolDefinition
from ferrule.core.reply import Reply
from ferrule.engines.engine import unheld
from ferrule.engines.fake import FakeEngine, FakeGenerator
from ferrule.engines.generator import ModelFacts
from ferrule.engines.text.engine import TextEngine, TextOptions

PARIS = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}\n</tool_call>'
LABELS = '<tool_call>\n{"name": "set_tags", "arguments": {"tags": ["a"]}}\n</tool_call>'


def engine(text: str, *targets: str, is_constrained: bool = True) -> TextEngine:
    fake = FakeGenerator([text], ModelFacts(template=PLAIN_TEMPLATE), targets=targets)
    return TextEngine(fake, TextOptions(format="hermes", is_constrained=is_constrained))


@pytest.mark.parametrize("tool, text", [(WEATHER, PARIS), (TAGS, LABELS)], ids=["weather", "tags"])
@pytest.mark.parametrize("targets", [("lark",), ("gbnf", "lark"), ("structural_tag",), ()])
def test_it_is_what_the_receipt_of_a_call_says(tool: ToolDefinition, text: str, targets: tuple[str, ...]) -> None:
    asked_first = engine(text, *targets)
    held = asyncio.run(asked_first.enforcement(tool))
    receipt = asked_first.generate(asked(tools=(tool,))).calls[0].receipt
    assert receipt is not None
    assert held.target == (targets[0] if targets else "")
    said = (held.claims.enforced, held.claims.checked, held.claims.unchecked)
    assert said == (receipt.enforced, receipt.checked, receipt.unchecked)
    assert bool(held.claims.enforced) is bool(targets)


def test_where_nothing_holds_an_engine_every_keyword_is_checked() -> None:
    assert asyncio.run(FakeEngine([Reply.of("hello")]).enforcement(WEATHER)) == unheld(WEATHER)
    assert asyncio.run(engine(PARIS, "lark", is_constrained=False).enforcement(WEATHER)) == unheld(WEATHER)
    assert {"type", "required", "minimum", "maximum"} <= {*unheld(WEATHER).claims.checked}


def test_traits_tell_what_the_backend_turned_out_to_be_held_by() -> None:
    class Sobered(FakeGenerator):
        async def facts(self) -> ModelFacts:
            self.traits = replace(self.traits, targets=())
            return await super().facts()

    made = TextEngine(Sobered([PARIS], ModelFacts(template=PLAIN_TEMPLATE)), TextOptions(format="hermes"))
    assert (made.traits.targets, "required" in made.traits.honours) == (("lark",), True)
    assert asyncio.run(made.enforcement(WEATHER)) == unheld(WEATHER)
    assert (made.traits.targets, made.traits.honours) == ((), frozenset({"auto"}))
