"""TextGenerator: the interface of a backend that continues a prompt, under a grammar if there is one.

This is all that a text engine needs from a backend. Must not know tools, formats or messages.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ferrule.engines.engine import Traits


class GrammarWatcher(Protocol):
    """Checks piece by piece whether a text follows a grammar."""

    def feed(self, text: str, /) -> bool: ...


@dataclass(frozen=True, slots=True)
class Grammar:
    """A grammar in one target's language. With `triggers` it applies from the first of these texts on."""

    target: str
    text: str
    triggers: tuple[str, ...] = ()
    make_watcher: Callable[[], GrammarWatcher] | None = field(default=None, compare=False, repr=False)
    """Makes a watcher for a text that is generated under the grammar; None if no exact watcher exists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest:
    """A request for one continuation. None means the backend's default."""

    prompt: str
    tokens: tuple[int, ...] | None = None
    """The prompt as token ids, if they are known."""
    grammar: Grammar | None = None
    max_tokens: int
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    """Texts that end the turn besides the model's own end token; they are not part of the generated text."""
    is_hole: bool = False
    """Whether the turn continues after this request. Then the backend reports which stop ended it and, if it can, the
    token ids that it generated."""
    reports_stop: bool = False
    """Whether to report which stop ended the turn, if the backend can."""
    preserved_tokens: tuple[str, ...] = ()
    """Texts that the backend must return as text even if the model writes a special token for them."""
    on_progress: Callable[[], None] | None = field(default=None, compare=False, repr=False)
    """Called each time the backend reports that it has read more of the prompt, if it reports that."""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Backend-specific fields, sent unchanged."""

    @property
    def prompt_or_tokens(self) -> str | list[int]:
        """The prompt as token ids if they are known, else as text."""
        return self.prompt if self.tokens is None else list(self.tokens)

    @property
    def sampling(self) -> dict[str, Any]:
        """The sampling parameters that are set, under the names that most backends share."""
        values = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "top_k": self.top_k,
            "seed": self.seed,
            "stop": list(self.stop) or None,
        }
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Piece:
    """More text. `tokens` is how many tokens were generated for it, `skipped` how many were appended instead.

    `token_ids` are the generated tokens, for a hole only. A token that may contain the beginning of a stop has no text
    yet.
    """

    text: str
    tokens: int = 1
    skipped: int = 0
    token_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CompletionEnd:
    """The end of a continuation. `is_cut_off` is set if it reached the token limit."""

    is_cut_off: bool
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    """How many prompt tokens came from the backend's cache."""
    matched_stop: str = ""
    """The text in `CompletionRequest.stop` that ended it, if the backend reports it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What a backend reports about its model; a field is empty if the backend does not report it."""

    name: str = ""
    template: str = ""
    bos: str = ""
    eos: str = ""
    special_tokens: Mapping[str, int] = field(default_factory=dict[str, int])
    """Special tokens by their text. A grammar names these by id instead of spelling them."""
    end_tokens: tuple[int, ...] = ()
    """The tokens that end a turn, if the grammar has to name them for the backend's matcher."""
    context: int = 0
    """The context length: how many tokens prompt and answer may have together; 0 if unknown."""
    find_special_texts: Callable[[str], Awaitable[frozenset[str]]] | None = field(
        default=None, compare=False, repr=False
    )
    """Finds the parts of a text that the model's tokenizer reads as special tokens; None if the backend has no
    tokenizer API."""
    renders_on_server: bool = False
    """Whether the backend does not publish its chat template but renders prompts with it (`apply_template`)."""


class TextGenerator(Protocol):
    """A backend that generates text."""

    @property
    def traits(self) -> Traits: ...

    async def facts(self) -> ModelFacts:
        """Report what is known about the model. Called once."""
        ...

    async def apply_template(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> str | None:
        """Render a prompt with the backend's own chat template; None if the backend cannot do that."""
        ...

    async def count_tokens(self, prompt: str) -> int | None:
        """Count a prompt's tokens with the model's tokenizer; None if the backend cannot do that."""
        ...

    async def tokenize(self, *pieces: str, is_prompt: bool) -> tuple[int, ...] | None:
        """Turn a text into the model's tokens; None if the backend cannot do that or does not accept token ids.

        A prompt gets the tokens that the model expects at its start; any other text is taken as part of a longer one.
        The pieces are one text; no token may reach from one into the next.
        """
        ...

    async def detokenize(self, tokens: tuple[int, ...]) -> str | None:
        """Turn tokens from the middle of a text into text; None if the backend cannot do that."""
        ...

    def generate(self, request: CompletionRequest) -> AsyncGenerator[Piece | CompletionEnd, None]:
        """Yield pieces, then one `CompletionEnd`. Closing the generator stops the backend."""
        ...

    async def close(self) -> None: ...
