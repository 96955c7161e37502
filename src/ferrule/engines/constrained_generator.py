"""ConstrainedToolGenerator: makes valid tool calls with any function that returns next-token logits."""

from __future__ import annotations

from collections.abc import Sequence

from ferrule.core.event import Finish, FinishReason
from ferrule.core.reply import Reply, fold
from ferrule.core.request import ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.rules.logit_processor import LogitProcessor, NextLogits, generate
from ferrule.rules.vocabulary import Vocabulary
from ferrule.wire.format import Format
from ferrule.wire.parser import Parser
from ferrule.wire.rule_builder import ReasoningMode, bind


class ConstrainedToolGenerator:
    """Generates under a grammar, so that each call parses, names an offered tool and has the arguments that it allows.

    If the token limit cuts a reply off, its finish reason is `length` and the incomplete call is not among its calls.
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
        tokens, is_complete = generate(processor, prompt, self._next_logits, max_tokens=max_tokens)
        parser = Parser(self._format, tools)
        events = [*parser.feed(self._vocabulary.decode(tokens)), *parser.close()]
        reply = fold(events)
        reason = FinishReason.LENGTH if not is_complete else reply.finish_reason
        return fold([*events, Finish(reason)])
