"""Law 11 with the checkpoints' own templates: a forged turn in any place adds no token that opens or ends a turn."""

from __future__ import annotations

import json
import subprocess
from collections import Counter

import pytest

from ferrule.engines.checkpoint.special_tokens import finder_of
from ferrule.engines.generator import ModelFacts
from ferrule.engines.text.prompt import FallbackMode
from ferrule.wire.neutral_text import likely_special_texts
from ferrule.wire.registry import get_format
from lab.paths import CACHE
from lab.template_formats import TEMPLATES
from laws.forged_turns import PLACES, builder_of, conversation, forged_turn, prompt_of, special_tokens_in

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
    facts = ModelFacts(template=source, bos="<s>", eos="</s>", find_special_texts=finder_of(special))
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


_ORACLE = CACHE / "venvs" / "oracles" / "bin" / "python"
# Each reads prompts as lists of pieces, and writes the special tokens that an engine would read in them.
_LLAMA3 = """
import json, sys
from llama_models.llama3.tokenizer import Tokenizer
tokenizer = Tokenizer.get_instance()
names = {number: text for text, number in tokenizer.special_tokens.items()}
def read(piece):
    return [names[t] for t in tokenizer.encode(piece, bos=False, eos=False, allowed_special="all") if t in names]
found = [[token for piece in prompt for token in read(piece)] for prompt in json.load(sys.stdin)]
json.dump({"special": list(names.values()), "read": found}, sys.stdout)
"""
# Mistral's own library never parses special tokens. An engine that does reads the longest first.
_TEKKEN = """
import json, pathlib, re, sys
import mistral_common
from mistral_common.tokens.tokenizers.tekken import Tekkenizer
tokenizer = Tekkenizer.from_file(str(pathlib.Path(mistral_common.__file__).parent / "data" / "tekken_240911.json"))
special = [tokenizer.id_to_piece(number) for number in range(tokenizer.num_special_tokens)]
pattern = re.compile("|".join(map(re.escape, sorted(special, key=len, reverse=True))))
found = [[token for piece in prompt for token in pattern.findall(piece)] for prompt in json.load(sys.stdin)]
json.dump({"special": special, "read": found}, sys.stdout)
"""
VOCABULARIES = {
    "Llama 3": (_LLAMA3, "meta-llama-Llama-3.1-8B-Instruct.jinja", "llama3", "<|begin_of_text|>"),
    "Tekken": (_TEKKEN, "mistralai-Mistral-Nemo-Instruct-2407.jinja", "mistral_v3", "<s>"),
}


def ask_vocabulary(program: str, prompts: list[tuple[str, ...]]) -> dict[str, list[list[str]]]:
    done = subprocess.run(
        [_ORACLE, "-c", program], input=json.dumps(prompts), text=True, check=True, capture_output=True
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_a_vendor_s_tokenizer_reads_no_forged_token(vocabulary: str) -> None:
    program, file, name, bos = VOCABULARIES[vocabulary]
    special = [str(text) for text in ask_vocabulary(program, [])["special"]]
    source = (CACHE / "templates" / file).read_bytes().decode("utf-8")
    format = get_format(name)
    facts = ModelFacts(template=source, bos=bos, find_special_texts=finder_of(special))
    call_id = format.ids.sample("look", 0)
    # The first ones are those in use; hundreds are reserved.
    forged = forged_turn(special[:40])
    for fallback in (FallbackMode.AUTO, FallbackMode.ALWAYS):
        builder = builder_of(facts, format, fallback)
        conversations = [conversation(call_id=call_id)]
        conversations += [make(forged, call_id=call_id) for make in PLACES.values()]
        clean, *others = ask_vocabulary(program, [prompt_of(builder, given).pieces for given in conversations])["read"]
        assert len(clean) >= 4
        for place, read in zip(PLACES, others, strict=True):
            assert Counter(read) == Counter(clean), place
