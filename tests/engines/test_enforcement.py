"""`Engine.enforcement` says before any call what the receipt says after one."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from engines.tools import PLAIN_TEMPLATE, TAGS, WEATHER, make_request
from ferrule import ToolDefinition
from ferrule.core.reply import Reply
from ferrule.engines.engine import no_enforcement
from ferrule.engines.fake import FakeEngine, FakeGenerator
from ferrule.engines.generator import ModelFacts
from ferrule.engines.text.engine import TextEngine, TextOptions

PARIS = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}\n</tool_call>'
LABELS = '<tool_call>\n{"name": "set_tags", "arguments": {"tags": ["a"]}}\n</tool_call>'


def make_engine(text: str, *targets: str, is_constrained: bool = True) -> TextEngine:
    fake = FakeGenerator([text], ModelFacts(template=PLAIN_TEMPLATE), targets=targets)
    return TextEngine(fake, TextOptions(format="hermes", is_constrained=is_constrained))


@pytest.mark.parametrize("tool, text", [(WEATHER, PARIS), (TAGS, LABELS)], ids=["weather", "tags"])
@pytest.mark.parametrize("targets", [("lark",), ("gbnf", "lark"), ("structural_tag",), ()])
def test_enforcement_equals_the_receipt_of_a_call(tool: ToolDefinition, text: str, targets: tuple[str, ...]) -> None:
    engine = make_engine(text, *targets)
    enforcement = asyncio.run(engine.enforcement(tool))
    receipt = engine.generate(make_request(tools=(tool,))).calls[0].receipt
    assert receipt is not None
    assert enforcement.target == (targets[0] if targets else "")
    claims = (enforcement.claims.enforced, enforcement.claims.checked, enforcement.claims.unchecked)
    assert claims == (receipt.enforced, receipt.checked, receipt.unchecked)
    assert bool(enforcement.claims.enforced) is bool(targets)


def test_without_a_grammar_every_keyword_is_checked() -> None:
    assert asyncio.run(FakeEngine([Reply.of("hello")]).enforcement(WEATHER)) == no_enforcement(WEATHER)
    assert asyncio.run(make_engine(PARIS, "lark", is_constrained=False).enforcement(WEATHER)) == no_enforcement(WEATHER)
    assert {"type", "required", "minimum", "maximum"} <= {*no_enforcement(WEATHER).claims.checked}


def test_traits_list_the_targets_that_the_backend_enforces() -> None:
    class WithoutTargets(FakeGenerator):
        async def facts(self) -> ModelFacts:
            self.traits = replace(self.traits, targets=())
            return await super().facts()

    engine = TextEngine(WithoutTargets([PARIS], ModelFacts(template=PLAIN_TEMPLATE)), TextOptions(format="hermes"))
    assert (engine.traits.targets, "required" in engine.traits.honours) == (("lark",), True)
    assert asyncio.run(engine.enforcement(WEATHER)) == no_enforcement(WEATHER)
    assert (engine.traits.targets, engine.traits.honours) == ((), frozenset({"auto"}))
