"""TextGenerator: something that continues a prompt, under a grammar if it is given one.

All that a text engine asks of a backend. Must not know tools, formats or messages.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ferrule.engines.engine import Traits


class Watching(Protocol):
    """Tells whether a text, as far as it has come, is what a grammar admits."""

    def feed(self, text: str, /) -> bool: ...


@dataclass(frozen=True, slots=True)
class Grammar:
    """What may be written, in one target's language. With `triggers` it holds from the first of them on."""

    target: str
    text: str
    triggers: tuple[str, ...] = ()
    watch: Callable[[], Watching] | None = field(default=None, compare=False, repr=False)
    """Begins to follow a text that is written under it, where that can be done exactly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """One continuation that is asked for. None is the backend's default."""

    prompt: str
    tokens: tuple[int, ...] | None = None
    """The prompt as the very tokens that the model is to read, where they are known."""
    grammar: Grammar | None = None
    max_tokens: int
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    """Texts that end the turn besides the model's own end token; they are not part of what is written."""
    is_hole: bool = False
    """Whether the turn goes on after this: then the backend must say which of the stops ended it, and in which tokens
    it wrote, if it can."""
    marks: tuple[str, ...] = ()
    """Texts that must come back as text also where the model has a special token for one and writes that."""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Fields of the backend's own, which go to it as they are."""

    @property
    def read(self) -> str | list[int]:
        """What the backend is to read."""
        return self.prompt if self.tokens is None else list(self.tokens)

    @property
    def sampling(self) -> dict[str, Any]:
        """What was asked for of how to choose tokens, in the words that most backends share."""
        given = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "top_k": self.top_k,
            "seed": self.seed,
            "stop": list(self.stop) or None,
        }
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Piece:
    """More text. `tokens` is how many it took, where the backend tells; `skipped`, how many it did not take.

    `ids` are those tokens, of a hole. A token that the beginning of a stop may stand in has no text yet.
    """

    text: str
    tokens: int = 1
    skipped: int = 0
    ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """The continuation is over: cut off by the budget, or not."""

    is_cut_off: bool
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    """How many tokens of the prompt the backend had from before."""
    stopped_by: str = ""
    """The text among `Writing.stop` that ended it, where the backend tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What a backend says of the model that it runs; empty where it says nothing."""

    name: str = ""
    template: str = ""
    bos: str = ""
    eos: str = ""
    specials: Mapping[str, int] = field(default_factory=dict[str, int])
    """Special tokens by their text: what a grammar may name instead of spelling."""
    ends: tuple[int, ...] = ()
    """The tokens that end a turn, where the backend's matcher has to be told."""
    context: int = 0
    """How many tokens prompt and answer may have together; 0 where nobody says."""
    shows_its_template: bool = False
    """It gives out no template but renders with it when asked (`templated`)."""


class TextGenerator(Protocol):
    """A backend."""

    @property
    def traits(self) -> Traits: ...

    async def facts(self) -> ModelFacts:
        """Asked once."""
        ...

    async def templated(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> str | None:
        """The prompt by the backend's own template; None where it cannot be asked."""
        ...

    async def count(self, prompt: str) -> int | None:
        """How many tokens a prompt is to the model, by its own tokenizer; None where the backend cannot be asked."""
        ...

    async def cut(self, text: str, *, is_prompt: bool) -> tuple[int, ...] | None:
        """A text as the model's tokens; None where the backend cannot be asked, or takes no tokens.

        A prompt has what the model wants before it; any other text stands amid others.
        """
        ...

    async def spelled(self, tokens: tuple[int, ...]) -> str | None:
        """The text of tokens that stand amid others; None where the backend cannot be asked."""
        ...

    def write(self, writing: Writing) -> AsyncGenerator[Piece | Ended, None]:
        """Pieces, then `Ended`. Closing the iterator stops the backend."""
        ...

    async def close(self) -> None: ...
