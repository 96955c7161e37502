"""ConstrainedToolGenerator: any function that gives next-token logits, and calls that are valid by construction."""

from __future__ import annotations

from collections.abc import Sequence

from ferrule.core.choice import ToolChoice
from ferrule.core.event import Finish, FinishReason
from ferrule.core.reply import Reply, fold
from ferrule.core.tool import ToolDefinition
from ferrule.rules.logit_processor import LogitProcessor, NextLogits, generate
from ferrule.rules.vocabulary import Vocabulary
from ferrule.wire.format import Format
from ferrule.wire.parser import Parser
from ferrule.wire.rule_builder import ReasoningMode, bind


class ConstrainedToolGenerator:
    """Whatever it returns parses, names an offered tool, and has the arguments that the rule could hold it to.

    A reply that the budget cuts off says so: its finish reason is `length` and the broken call is not among its calls.
    """

    def __init__(self, next_logits: NextLogits, vocabulary: Vocabulary, format: Format) -> None:
        self._next_logits = next_logits
        self._vocabulary = vocabulary
        self._format = format

    def generate(
        self,
        prompt: Sequence[int],
        tools: Sequence[ToolDefinition],
        choice: ToolChoice = ToolChoice.required(),
        *,
        parallel: bool = True,
        reasoning: ReasoningMode = ReasoningMode.OFF,
        max_tokens: int = 1024,
    ) -> Reply:
        rule = bind(self._format, tools, choice, parallel=parallel, reasoning=reasoning)
        processor = LogitProcessor(self._vocabulary, rule)
        written, is_whole = generate(processor, prompt, self._next_logits, max_tokens=max_tokens)
        parser = Parser(self._format, tools)
        events = [*parser.feed(self._vocabulary.text(written)), *parser.close()]
        reply = fold(events)
        reason = FinishReason.LENGTH if not is_whole else reply.finish_reason
        return fold([*events, Finish(reason)])
