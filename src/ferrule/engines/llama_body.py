"""Request bodies for llama.cpp's server, in process and over HTTP alike. Must not know how it is reached."""

from __future__ import annotations

from typing import Any

from ferrule.engines.generator import CompletionRequest, Grammar

# llama.cpp passes a grammar that begins with this to llguidance, if it was built with it.
_LARK_HEAD = "%llguidance {}\n"
_WORD_TRIGGER = 1


def completion_body(request: CompletionRequest) -> dict[str, Any]:
    """The body for `/v1/completions`, which also accepts llama.cpp's own fields."""
    return {
        "prompt": request.prompt_or_tokens,
        "max_tokens": request.max_tokens,
        "cache_prompt": True,
        "stream": True,
        "stream_options": {"include_usage": True},
        # Reported after each batch of the prompt. A server that does not know the field ignores it.
        "return_progress": True,
        **({"verbose": True} if request.is_hole or request.reports_stop else {}),
        **request.sampling,
        **(_grammar_fields(request.grammar) if request.grammar else {}),
        **_preserved_tokens_field(request),
        **request.extra,
    }


def tokenize_body(*pieces: str, is_prompt: bool) -> dict[str, Any]:
    """The body for `/tokenize`, to tokenize as completions do: a prompt with the tokens expected at its start."""
    return {"content": pieces[0] if len(pieces) == 1 else pieces, "add_special": is_prompt, "parse_special": True}


def _grammar_fields(grammar: Grammar) -> dict[str, Any]:
    if grammar.target == "lark":
        return {"grammar": _LARK_HEAD + grammar.text}
    if not grammar.triggers:
        return {"grammar": grammar.text}
    return {
        "grammar": grammar.text,
        "grammar_lazy": True,
        "grammar_triggers": [{"type": _WORD_TRIGGER, "value": word} for word in grammar.triggers],
    }


def _preserved_tokens_field(request: CompletionRequest) -> dict[str, Any]:
    """The special tokens to keep in the text. Texts that are no tokens of the model have no effect."""
    triggers = request.grammar.triggers if request.grammar else ()
    texts = [*dict.fromkeys((*triggers, *request.preserved_tokens))]
    return {"preserved_tokens": texts} if texts else {}
