"""Law 4 for vLLM and SGLang: walks under xgrammar's own mask, on the vocabulary of SmolLM2, make only valid calls.

A walk chooses allowed tokens by dice. Wherever it is free to, it tries to write the format's own markers and calls
that do not fit.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from ferrule.formats import all_formats, parse
from ferrule.rules.structural_tag import emit_structural_tag
from ferrule.wire.rule_builder import bind
from lab.paths import CACHE
from lab.workers import Worker
from laws.replies import TOOLS, own_markers
from laws.test_rule_protects import CHOICES, violation
from rules.test_structural_tag_oracle import WRONG_CALLS, WRONG_TOOLS, single_call
from rules.vocabularies import tokenizer

pytestmark = pytest.mark.oracle

FORMATS = all_formats()
# Of every format, so that there are 300 in all.
FINISHED = -(-300 // len(FORMATS))
WALKS = 6
TOKENS = 250


@pytest.fixture(scope="module")
def xgrammar() -> Iterator[Worker]:
    interpreter = CACHE / "venvs" / "xgrammar" / "bin" / "python"
    with Worker(interpreter, "lab.peers.xgrammar_walk_worker", hint="run scripts/setup-oracles") as worker:
        yield worker


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tokens of SmolLM2 and, as their text, those that some family has for its markers."""
    words, _ = tokenizer("smollm2")
    path = tmp_path_factory.mktemp("vocabulary") / "smollm2.txt"
    tokens = (*words.plain, *(text.encode() for text in words.specials))
    path.write_bytes(b"\n".join(map(base64.b64encode, tokens)))
    return path


@pytest.mark.parametrize("name", FORMATS)
def test_a_senseless_walk_makes_only_valid_calls(xgrammar: Worker, vocabulary: Path, name: str) -> None:
    form = FORMATS[name]
    markers = [before + marker for marker in sorted(own_markers(form)) for before in ("", "\n")]
    calls = 2 * [single_call(form, *wrong, WRONG_TOOLS) for wrong in WRONG_CALLS.values()]
    finished = 0
    for choice, allowed in CHOICES.items():
        tag = emit_structural_tag(bind(form, TOOLS, allowed))
        lures = markers + calls
        request = {"tag": tag, "vocabulary": str(vocabulary), "lures": lures, "seed": f"{name} {choice}"}
        answer = xgrammar.ask({**request, "walks": WALKS, "most": TOKENS})
        assert answer["error"] is None, answer["error"]
        for walked in answer["walks"]:
            assert not walked["problem"], walked
            if walked["is_finished"]:
                finished += 1
                wrong = violation(form, choice, parse(form, walked["text"], TOOLS))
                assert not wrong, f"{wrong}: {walked['text']!r}"
    assert finished >= FINISHED
