"""What llama.cpp's completion endpoint is asked, in process and over HTTP alike. Must not know how it is reached."""

from __future__ import annotations

from typing import Any

from ferrule.engines.generator import Grammar, Writing

# llama.cpp hands a grammar that begins so to llguidance, where it was built in.
_LARK_HEAD = "%llguidance {}\n"
_WORD_TRIGGER = 1


def streaming_body(writing: Writing) -> dict[str, Any]:
    """The body for `/v1/completions`, which takes llama.cpp's own fields too."""
    return {
        "prompt": writing.read,
        "max_tokens": writing.max_tokens,
        "cache_prompt": True,
        "stream": True,
        "stream_options": {"include_usage": True},
        **({"verbose": True} if writing.is_hole else {}),
        **writing.sampling,
        **(_grammar(writing.grammar) if writing.grammar else {}),
        **_preserved(writing),
        **writing.extra,
    }


def cutting_body(text: str, *, is_prompt: bool) -> dict[str, Any]:
    """The body for `/tokenize`, to cut a text as completions do: a prompt with what the model wants before it."""
    return {"content": text, "add_special": is_prompt, "parse_special": True}


def _grammar(grammar: Grammar) -> dict[str, Any]:
    if grammar.target == "lark":
        return {"grammar": _LARK_HEAD + grammar.text}
    if not grammar.triggers:
        return {"grammar": grammar.text}
    return {
        "grammar": grammar.text,
        "grammar_lazy": True,
        "grammar_triggers": [{"type": _WORD_TRIGGER, "value": word} for word in grammar.triggers],
    }


def _preserved(writing: Writing) -> dict[str, Any]:
    """Special tokens that are not left out of the text. A text that is no token of this model is left alone by this."""
    triggers = writing.grammar.triggers if writing.grammar else ()
    kept = [*dict.fromkeys((*triggers, *writing.marks))]
    return {"preserved_tokens": kept} if kept else {}
