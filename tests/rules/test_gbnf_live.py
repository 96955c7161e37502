"""The grammars in llama.cpp itself, with a small model that would not call a tool without a grammar."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ferrule import ToolCall, ToolChoice, ToolDefinition
from ferrule.core.json_schema import JsonSchema
from ferrule.formats import all_formats, get_format, parse
from ferrule.rules.gbnf import emit_gbnf
from ferrule.wire.rule_builder import ReasoningMode, bind
from laws.replies import TOOLS as ALL_KINDS
from rules.gbnf_acceptor import Acceptor, GbnfError
from rules.test_gbnf_acceptor import REFUSED

pytestmark = pytest.mark.live
_MORE = ("pythonic", "gemma4", "glm45", "mistral_v3", "llama3")

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".cache/venvs/llama/bin/python"
MODEL = ROOT / ".cache/models/SmolLM2-135M-Instruct.Q4_1.gguf"
PROMPT = (
    "<|im_start|>system\nYou set lights and book tables by calling functions, briefly.<|im_end|>\n"
    "<|im_start|>user\nDim the lamp in the hall, then book for two.<|im_end|>\n<|im_start|>assistant\n"
)
SEEDS = range(4)
WORD_TRIGGER = 1
TOOLS = (
    ToolDefinition.build("set_light")
    .parameter("room", JsonSchema.enum(["hall", "kitchen"]), required=True)
    .parameter("level", JsonSchema.integer(), required=True)
    .parameter("note", {"type": "string", "maxLength": 24})
    .done(),
    ToolDefinition.build("book_table")
    .parameter("guests", {"type": "array", "items": {"type": "string", "maxLength": 12}, "maxItems": 3}, required=True)
    .parameter("outside", JsonSchema.boolean())
    .done(),
)
PARAMETERS = {tool.name: dict(tool.parameters) for tool in TOOLS}


class Llama:
    """llama.cpp's server in a separate process; one request at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def answer(self, grammar: str, *, most: int, seed: int = 0, **options: object) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {
            "prompt": PROMPT,
            "grammar": grammar,
            "n_predict": most,
            "temperature": 1,
            "seed": seed,
            **options,
        }
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@pytest.fixture(scope="module")
def llama() -> Iterator[Llama]:
    assert PYTHON.exists() and MODEL.exists(), "run scripts/setup-llama first"  # noqa: PT018
    command = [str(PYTHON), str(Path(__file__).with_name("llama_worker.py")), str(MODEL)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        yield Llama(process)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(timeout=20)


@pytest.mark.parametrize(
    "name",
    ["hermes", "qwen_xml", *(pytest.param(name, marks=pytest.mark.long) for name in _MORE)],
)
def test_what_llama_cpp_writes_under_the_grammar_is_calls_that_fit(name: str, llama: Llama) -> None:
    form = get_format(name)
    finished = 0
    for seed in SEEDS:
        # A small model rarely stops if it may call again, so only the first run allows more than one call.
        rule = bind(form, TOOLS, ToolChoice.required(), parallel=seed == 0, reasoning=ReasoningMode.OFF)
        grammar = emit_gbnf(rule).text
        acceptor = Acceptor(grammar)
        (choice,) = llama.answer(grammar, most=200, seed=seed)["choices"]
        text: str = choice["text"]
        if choice["finish_reason"] != "stop":
            # A truncated text may end in half a character, which becomes a replacement character.
            assert acceptor.admits_beginning(text.rstrip("\ufffd")), text
            continue
        finished += 1
        assert acceptor.accepts(text), text
        assert all(acceptor.admits_beginning(text[:size]) for size in range(len(text)))
        parts = parse(form, text, TOOLS).parts
        assert parts
        for call in parts:
            assert isinstance(call, ToolCall), text
            assert call.complete
            jsonschema.validate(call.arguments, PARAMETERS[call.name])
    assert finished, "no answer was finished"


@pytest.mark.parametrize("name", ["hermes", "mistral_v3", "qwen_xml"])
def test_a_lazy_grammar_takes_over_where_the_model_writes_a_trigger(name: str, llama: Llama) -> None:
    gbnf = emit_gbnf(bind(get_format(name), TOOLS))
    assert gbnf.triggered is not None
    (trigger,) = gbnf.triggers
    # Four turns that all contain the trigger, so that the model writes it again. What follows it there is not a call.
    turn = f"<|im_start|>user\nPlease dim it<|im_end|>\n<|im_start|>assistant\nOk. {trigger}xxx<|im_end|>\n"
    answer = llama.answer(
        gbnf.triggered,
        most=60,
        prompt=turn * 4 + turn.partition("Ok.")[0],
        temperature=0,
        grammar_lazy=True,
        grammar_triggers=[{"type": WORD_TRIGGER, "value": trigger}],
    )
    before, matched, after = answer["choices"][0]["text"].partition(trigger)
    assert matched, f"the model wrote no trigger: {before!r}"
    assert Acceptor(gbnf.triggered).admits_beginning(matched + after.rstrip("\ufffd")), after


@pytest.mark.parametrize("name", all_formats())
def test_llama_cpp_takes_every_grammar(name: str, llama: Llama) -> None:
    for choice in (ToolChoice.auto(), ToolChoice.required(), ToolChoice.none()):
        gbnf = emit_gbnf(bind(get_format(name), ALL_KINDS, choice))
        for grammar in filter(None, (gbnf.text, gbnf.triggered)):
            answer = llama.answer(grammar, most=2)
            assert "choices" in answer, answer
            assert Acceptor(grammar).admits_beginning(answer["choices"][0]["text"].rstrip("\ufffd"))


@pytest.mark.parametrize("what", REFUSED)
def test_what_the_acceptor_refuses_llama_cpp_refuses_too(what: str, llama: Llama) -> None:
    with pytest.raises(GbnfError):
        Acceptor(REFUSED[what])
    assert "error" in llama.answer(REFUSED[what], most=1)
