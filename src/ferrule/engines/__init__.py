"""Engines: what generates, and what you need to add one.

Most programs need only `ferrule.load_engine`. To add a backend that continues text, write a `TextGenerator` and pass it
to `TextEngine`, which renders, constrains, parses and validates for it.

Example:
    from ferrule.engines import TextEngine, TextOptions
    from ferrule.testing import FakeGenerator

    engine = TextEngine(FakeGenerator(["Hello."]), TextOptions(format="hermes"))
"""

from typing import TYPE_CHECKING

from ferrule.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ferrule.engines.constrained_generator import ConstrainedToolGenerator
    from ferrule.engines.engine import Engine, Traits
    from ferrule.engines.generator import CompletionEnd, CompletionRequest, Grammar, ModelFacts, Piece, TextGenerator
    from ferrule.engines.grammar import honours_grammar
    from ferrule.engines.registry import load_engine
    from ferrule.engines.text.engine import TextEngine, TextOptions
    from ferrule.rules.logit_processor import LogitProcessor
    from ferrule.rules.vocabulary import Vocabulary
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "engines.constrained_generator": ["ConstrainedToolGenerator"],
            "engines.engine": ["Engine", "Traits"],
            "engines.generator": [
                *("CompletionEnd", "CompletionRequest", "Grammar", "ModelFacts", "Piece", "TextGenerator")
            ],
            "engines.grammar": ["honours_grammar"],
            "engines.registry": ["load_engine"],
            "engines.text.engine": ["TextEngine", "TextOptions"],
            "rules.logit_processor": ["LogitProcessor"],
            "rules.vocabulary": ["Vocabulary"],
        },
    )

__all__ = [
    "CompletionEnd",
    "CompletionRequest",
    "ConstrainedToolGenerator",
    "Engine",
    "Grammar",
    "LogitProcessor",
    "ModelFacts",
    "Piece",
    "TextEngine",
    "TextGenerator",
    "TextOptions",
    "Traits",
    "Vocabulary",
    "honours_grammar",
    "load_engine",
]
