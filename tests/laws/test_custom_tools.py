"""The laws for custom tools: the text of a call matches the tool's grammar, in the envelope of every format.

What the grammar admits is decided by regular expressions and functions of Python that were written apart from it.
"""

from __future__ import annotations

import random
import re
from functools import cache

import llguidance
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule import FunctionCall, Reply, TextGrammar, ToolCall, ToolChoice, ToolDefinition, UnrenderableError
from ferrule.core.json_text import dumps
from ferrule.formats import all_formats, parse, render
from ferrule.rules.lark import emit_lark
from ferrule.rules.lowering import Lowering
from ferrule.rules.matcher import ByteMatcher
from ferrule.rules.text_grammar import text_faults
from ferrule.wire.renderer import arrange_parts
from ferrule.wire.rule_builder import bind
from lab.apply_patch import GRAMMAR as PATCH
from rules.vocabularies import Vocabulary, tokenizer
from rules.walks import walk
from sampling import sampled

FORMATS = all_formats()
_CHANGES = r"(?:(?:@@(?: .+)?|[+\- ].*)\n)+(?:\*\*\* End of File\n)?"
_HUNK = (
    r"(?:\*\*\* Add File: .+\n(?:\+.*\n)+|\*\*\* Delete File: .+\n"
    rf"|\*\*\* Update File: .+\n(?:\*\*\* Move to: .+\n)?(?:{_CHANGES})?)"
)
IS_PATCH = re.compile(rf"\*\*\* Begin Patch\n{_HUNK}+\*\*\* End Patch\n?")
SUM = TextGrammar(
    "lark", 'start: sum\nsum: NUMBER | "(" sum ("+" | "\\n" | "\\"" | "\\\\") sum ")"\nNUMBER: /[0-9]{1,3}/'
)
TOOLS = (
    ToolDefinition.custom("apply_patch", "Changes files.", PATCH),
    ToolDefinition.custom("add", "Adds.", SUM),
)
NOT_HELD = {"minicpm5"}
"""Formats that quote a raw text which contains a line break. llguidance cannot take that out of rules that nest."""
# Lines as they are in files: with escapes, quotes, tags, and without a line break.
LINES = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ['    print("a\\n")', "</parameter>", "</tool_call>", "'''", "<a b='c'>", "\t{", "\\", '"', "x </", "é\x01\x1b"]
)
FULL = LINES.filter(bool)


def is_sum(text: str) -> bool:
    """Whether a text is a sum, by replacing the innermost ones until one number is left."""
    while (shorter := re.sub(r'\([0-9]{1,3}[+\n"\\][0-9]{1,3}\)', "0", text)) != text:
        text = shorter
    return re.fullmatch("[0-9]{1,3}", text) is not None


def is_patch(text: str) -> bool:
    return IS_PATCH.fullmatch(text) is not None


MATCHES = {"apply_patch": is_patch, "add": is_sum}


@st.composite
def patches(draw: st.DrawFn) -> str:
    hunks: list[str] = []
    for kind in draw(st.lists(st.sampled_from("adum"), min_size=1, max_size=3)):
        name = draw(FULL)
        if kind == "a":
            lines = draw(st.lists(LINES, min_size=1, max_size=3))
            hunks.append(f"*** Add File: {name}\n" + "".join(f"+{line}\n" for line in lines))
        elif kind == "d":
            hunks.append(f"*** Delete File: {name}\n")
        else:
            move = f"*** Move to: {draw(FULL)}\n" if kind == "m" else ""
            context = draw(st.sampled_from(["", "@@\n"]) | FULL.map(lambda line: f"@@ {line}\n"))
            lines = draw(st.lists(st.tuples(st.sampled_from("+- "), LINES), min_size=1, max_size=3))
            changes = "".join(f"{sign}{line}\n" for sign, line in lines)
            hunks.append(f"*** Update File: {name}\n{move}{context}{changes}")
    return "*** Begin Patch\n" + "".join(hunks) + "*** End Patch" + draw(st.sampled_from(["", "\n"]))


sums = st.recursive(
    st.integers(0, 999).map(str),
    lambda inner: st.tuples(inner, st.sampled_from('+\n"\\'), inner).map(lambda parts: f"({''.join(parts)})"),
    max_leaves=5,
)


TEXTS = {"apply_patch": patches(), "add": sums}


@cache
def matcher_of(name: str, tool: str, vocabulary: str = "bytes") -> tuple[Vocabulary, llguidance.LLMatcher]:
    tokens, llg_tokenizer = tokenizer(vocabulary)
    grammar = emit_lark(bind(FORMATS[name], TOOLS, ToolChoice.one(tool)), tokens.specials)
    return tokens, llguidance.LLMatcher(llg_tokenizer, llguidance.LLMatcher.grammar_from_lark(grammar), log_level=0)


@cache
def is_held(name: str, tool: str) -> bool:
    lowering = Lowering(has_grammars=True)
    lowering.lower(bind(FORMATS[name], TOOLS, ToolChoice.one(tool)).start)
    return not lowering.lost_grammars


@cache
def plain_matcher(name: str, tool: str) -> ByteMatcher:
    return ByteMatcher(emit_lark(bind(FORMATS[name], TOOLS, ToolChoice.one(tool))))


def admits(name: str, tool: str, text: str) -> bool:
    return plain_matcher(name, tool).accepts(text)


def written_call(name: str, tool: str, text: str) -> str | None:
    """The rendered call; None if the format cannot write the text."""
    form = FORMATS[name]
    call = ToolCall(form.ids.sample(tool, 0), FunctionCall(tool, dumps({"input": text})))
    try:
        return render(form, arrange_parts(form, Reply((call,))), TOOLS)
    except UnrenderableError:
        return None


@given(patches())
def test_the_matcher_admits_every_patch(text: str) -> None:
    assert IS_PATCH.fullmatch(text)
    assert text_faults(PATCH, text) == ()


@given(patches(), st.data())
def test_a_damaged_patch_is_refused_with_its_place_unless_it_is_still_one(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:at] + data.draw(st.sampled_from(["", "*", "\n", "x"])) + text[at + 1 :]
    assert (text_faults(PATCH, damaged) == ()) is (IS_PATCH.fullmatch(damaged) is not None)
    for fault in text_faults(PATCH, damaged):
        assert (fault.path, fault.keyword) == ("/input", "grammar")
        assert "line" in fault.message


@pytest.mark.parametrize("name", FORMATS)
def test_a_grammar_is_held_in_every_format_unless_its_rules_nest_what_the_format_quotes(name: str) -> None:
    assert is_held(name, "apply_patch")
    assert is_held(name, "add") is (name not in NOT_HELD)


@pytest.mark.parametrize("name, tool", sampled("texts of custom tools", FORMATS, TEXTS, 1))
@settings(max_examples=4)
@given(data=st.data())
def test_the_rule_admits_every_rendered_text_that_matches_and_it_comes_back(
    name: str, tool: str, data: st.DataObject
) -> None:
    text = data.draw(TEXTS[tool])
    written = written_call(name, tool, text)
    if written is not None:
        assert admits(name, tool, written), written
        assert [call.arguments for call in parse(FORMATS[name], written, TOOLS).calls] == [{"input": text}]


BAD_TEXTS = {
    "no hunk": ("apply_patch", "*** Begin Patch\n*** End Patch"),
    "no end": ("apply_patch", "*** Begin Patch\n*** Delete File: a\n"),
    "no sign": ("apply_patch", "*** Begin Patch\n*** Add File: a\nb\n*** End Patch"),
    "prose": ("apply_patch", "hello"),
    "open": ("add", "(1+2"),
    "open inside": ("add", "(1+(2+3)"),
    "long number": ("add", "1234"),
    "nothing": ("add", ""),
}


@pytest.mark.parametrize("name, case", sampled("bad texts of custom tools", FORMATS, BAD_TEXTS, 1))
def test_the_rule_refuses_a_text_that_does_not_match(name: str, case: str) -> None:
    tool, text = BAD_TEXTS[case]
    written = written_call(name, tool, text)
    assert written is not None
    assert not is_held(name, tool) or not admits(name, tool, written)


@pytest.mark.parametrize("name, tool", sampled("walks of custom tools", FORMATS, MATCHES, 1))
def test_a_senseless_walk_writes_texts_that_match(name: str, tool: str) -> None:
    rng = random.Random(name)
    vocabulary, matcher = matcher_of(name, tool)
    for _ in range(3):
        result = walk(vocabulary, matcher, rng)
        assert not result.problem, result
        reply = parse(FORMATS[name], result.text, TOOLS)
        assert reply.calls or not result.is_finished
        for call in reply.calls if is_held(name, tool) else ():
            text = call.arguments["input"]
            assert MATCHES[call.name](text), repr(text)
            assert text_faults(PATCH if call.name == "apply_patch" else SUM, text) == ()
