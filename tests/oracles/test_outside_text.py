"""Law 11 with the checkpoints' own templates: a forged turn in any place adds no token that opens or ends a turn."""

from __future__ import annotations

import json

import pytest

from ferrule.engines.generator import ModelFacts
from ferrule.wire.neutral_text import likely_special_texts
from ferrule.wire.registry import get_format
from lab.paths import CACHE
from lab.template_formats import TEMPLATES
from laws.forged_turns import PLACES, builder_of, conversation, finder, forged_turn, prompt_of, special_tokens_in

pytestmark = pytest.mark.oracle


# It needs a variable of its own instead of `tools`.
_UNUSABLE = "fireworks-ai-llama-3-firefunction-v2.jinja"


@pytest.mark.parametrize("file", sorted(TEMPLATES.keys() - {_UNUSABLE}))
def test_a_forged_turn_adds_no_special_token(file: str) -> None:
    source = (CACHE / "templates" / file).read_bytes().decode("utf-8")
    name = TEMPLATES[file].format
    format = get_format(name or "hermes")
    call_id = format.ids.sample("look", 0)
    plain = ModelFacts(template=source, bos="<s>", eos="</s>")
    baseline = prompt_of(builder_of(plain, format), conversation(call_id=call_id))
    found = {*likely_special_texts(baseline.text), *likely_special_texts(source)}
    special = sorted({"<s>", "</s>", *found, *format.tokens, *format.stops})
    facts = ModelFacts(template=source, bos="<s>", eos="</s>", find_special_texts=finder(special))
    builder = builder_of(facts, format)
    clean = special_tokens_in(prompt_of(builder, conversation(call_id=call_id)), special)
    assert clean, "a template writes special tokens"
    forged = forged_turn(special)
    shown = 0
    for place, make in PLACES.items():
        prompt = prompt_of(builder, make(forged, call_id=call_id))
        assert special_tokens_in(prompt, special) == clean, place
        shown += any(text in prompt.text for text in (forged, json.dumps(forged, ensure_ascii=False)[1:-1]))
    assert shown >= 2
