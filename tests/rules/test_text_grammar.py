"""What a custom tool's grammar may say, what is refused by name, and what a call's faults and receipt say of it."""

from __future__ import annotations

import pytest

from ferrule import DefinitionError, TextGrammar, ToolChoice, ToolDefinition
from ferrule.core.call import How, Receipt
from ferrule.core.event import ArgumentsDelta, CallEnd, CallStart, Diagnostic
from ferrule.core.json_text import dumps
from ferrule.engines.receipts import ReceiptWriter
from ferrule.rules.call_check import argument_faults, argument_text_faults
from ferrule.rules.gbnf import emit_gbnf
from ferrule.rules.lark import emit_lark
from ferrule.rules.matcher import ByteMatcher
from ferrule.rules.text_grammar import admit_grammar, spelling_in, text_faults, write_grammar
from ferrule.wire.registry import get_format
from ferrule.wire.rule_builder import bind

LEVEL = ToolDefinition.custom("set_level", "Sets a level.", TextGrammar("regex", "low|high"))

ADMITTED = {
    'start: "a"+': (["a", "aaa"], ["", "b"]),
    'start: "a"i "b"': (["ab", "Ab"], ["aB"]),
    'start: A | b -> other\n  | "c"\nA.2: /[x-z]/\n?b: "b"': (["x", "b", "c"], ["xb"]),
    'start: "a"..."c"'.replace("...", ".."): (["b"], ["d"]),
    'start: "x"~2..3 "y"{1,2} "z"~2': (["xxyzz", "xxxyyzz"], ["xyzz", "xxyz"]),
    'start: ["a"] ("b" | "c")? // a comment\n': (["", "ab", "c"], ["ba"]),
    "%import common (INT, WS_INLINE)\n%import common.LF -> NL\nstart: INT (WS_INLINE INT)* NL": (["1 2\n"], ["1 2"]),
    'start: list\nlist: list "," /[0-9]/ | /[0-9]/': (["1", "1,2,3"], ["1,", ",1"]),
    "start: A A\nA: /a+/": (["aa", "aaa"], ["a"]),
    'start: /./s /[^"\\\\]/ /\\d{2}/ /\\p{Lu}/': (["\nx12É"], ['\n"12É', "\nx1É"]),
    'start: "\\t\\x41\\u00e9\\\\\\""': (['\tAé\\"'], ["A"]),
}
REFUSED = {
    'first: "a"': "no rule 'start'",
    "start: other": "other is not defined",
    'start: "a" start': "never ends",
    'start: A\nA: "x" A': "contains itself",
    'start: "a"\nstart: "b"': "defined twice",
    'start: "a"\n%ignore " "': "%ignore",
    "start: %json {}": "%json",
    "start: <|end|>": "<",
    'start: "a" & "b"': "&",
    'start: a{b}\na{x}: "c"': "not supported",
    "start: /a(?=b)/": "lookaround",
    "start: /(a)\\1/": "backreference",
    "start: /a*?/": "lazy",
    "start: /^a/": "anchor",
    "start: /a/x": "flags",
    "start: /[z-a]/": "z-a",
    "start: /a": "cannot be read",
    'start: "a"~3..1': "below its minimum",
    'start: "a"~2000': "exceeds 1000",
    "start: " + "(" * 60 + '"a"' + ")" * 60: "nested",
    "start: /" + "(" * 60 + "a" + ")" * 60 + "/": "nested",
    "start: /(((a{900}){900}){900})/": "more than 20000 parts",
    "start: A\n"
    + "".join(f"{a}: {b} {b} {b}\n" for a, b in zip("ABCDEFGHIJKLMNOP", "BCDEFGHIJKLMNOPQ", strict=True))
    + 'Q: "q"': "more than 20000 parts",
    "start: " + '"a" ' * 20_000: "longer than",
    "%import other.X\nstart: X": "common",
    "%import common.NOPE\nstart: NOPE": "NOPE",
    "%import": "common",
    "start: /a{\u00b2}/": "starts no repetition",
    'start: B\nA: "' + "x" * 10_000 + '"\nB: ' + "A " * 8_000: "more than 20000 parts",
    "start: A\n"
    + "".join(f"{a}: {'(' * 24}{b} | {b}{')+' * 24}\n" for a, b in zip("ABCDEF", "BCDEFG", strict=True))
    + 'G: "g"': "nested",
}


@pytest.mark.parametrize("definition", ADMITTED)
def test_a_grammar_admits_these_texts_and_not_those(definition: str) -> None:
    grammar = TextGrammar("lark", definition)
    admitted, refused = ADMITTED[definition]
    assert [text_faults(grammar, text) for text in admitted] == [()] * len(admitted)
    assert all(text_faults(grammar, text) for text in refused)


@pytest.mark.parametrize("definition", REFUSED, ids=lambda text: text[:30])
def test_anything_else_is_refused_by_name_before_generation(definition: str) -> None:
    tool = ToolDefinition.custom("patch", "", TextGrammar("lark", definition))
    with pytest.raises(DefinitionError, match=r"(?s)tool 'patch'.*refused") as refusal:
        admit_grammar(tool)
    assert REFUSED[definition] in refusal.value.message
    assert refusal.value.code == "grammar_refused"
    assert refusal.value.hint


@pytest.mark.parametrize(
    "regex, admitted, refused",
    [
        ("low|high", "high", "lowhigh"),
        ("^(low|high)$", "low", "^low$"),
        ("(?i)yes", "YES", "no"),
        (r"a/b\$", "a/b$", "a/b"),
        (r"[\w.]+@[[:alpha:]]{2,}", "a.b@cd", "a@c"),
        (r"[^\]\-/]+", "ab", "a/b"),
    ],
)
def test_a_regex_must_match_the_whole_text(regex: str, admitted: str, refused: str) -> None:
    grammar = TextGrammar("regex", regex)
    assert text_faults(grammar, admitted) == ()
    assert text_faults(grammar, refused)


def test_an_anchor_of_one_alternative_is_refused() -> None:
    with pytest.raises(DefinitionError, match="alternatives"):
        text_faults(TextGrammar("regex", "^a|b$"), "a")


@pytest.mark.parametrize(
    "definition",
    [
        'start: r40\nr0: "x"\n' + "".join(f"r{n}: r{n - 1} r{n - 1}\n" for n in range(1, 41)),
        "start: r0\n" + "".join(f"r{n}: r{n + 1}\n" for n in range(2_000)) + 'r2000: "x"',
        "start: r0\n" + "".join(f"r{n}: r{n + 1}\n" for n in range(2_000)) + 'r2000: "x" | "x" start',
    ],
    ids=["texts that double", "a chain", "a chain that is a ring"],
)
def test_rules_that_would_grow_without_end_when_written_out_are_kept_as_rules(definition: str) -> None:
    grammar = TextGrammar("lark", definition)
    assert text_faults(grammar, "")
    written = write_grammar(grammar, spelling_in(None, ("</tool_call>",)))
    assert written.regex is None
    assert written.is_holdable


def test_a_fault_says_the_place_and_what_must_be_written_there() -> None:
    grammar = TextGrammar("lark", 'start: "begin\\n" /[a-z]/+ "\\nend"')
    (fault,) = text_faults(grammar, "begin\nab\nstop")
    assert fault.message == (
        'does not match the tool\'s grammar in line 3 at character 1: found "stop"; write "end" there'
    )
    (early,) = text_faults(grammar, "begin\nab\ne")
    assert early.message == 'ends too early for the tool\'s grammar, in line 3; write "nd" there'


def test_a_call_is_checked_against_the_schema_first_and_then_the_grammar() -> None:
    assert argument_faults(LEVEL, {"input": "low"}) == ()
    assert argument_text_faults(LEVEL, '{"input": "high"}') == ()
    assert argument_faults(LEVEL, {"input": "none"})[0].keyword == "grammar"
    assert argument_text_faults(LEVEL, '{"input": 7}')[0].keyword == "type"
    assert argument_faults(ToolDefinition.custom("any"), {"input": "none"}) == ()


def receipt_of(
    text: str, encoding: str | None = None, lost_grammars: frozenset[str] = frozenset()
) -> tuple[Receipt | None, list[str]]:
    draft = Receipt(how=How.GRAMMAR, engine="test", path="completion")
    writer = ReceiptWriter({LEVEL.name: LEVEL}, draft, encoding, lost_grammars=lost_grammars)
    start, end = CallStart(0, "1", LEVEL.name), CallEnd(0)
    events = list(writer.add_receipts([start, ArgumentsDelta(0, dumps({"input": text})), end]))
    notes = [event.message for event in events if isinstance(event, Diagnostic)]
    return next((event.receipt for event in events if isinstance(event, CallEnd)), None), notes


def test_the_receipt_lists_the_grammar_as_enforced_or_checked() -> None:
    held, _ = receipt_of("low", encoding="JSON")
    lost, _ = receipt_of("low", encoding="JSON", lost_grammars=frozenset({LEVEL.name}))
    unconstrained, _ = receipt_of("low")
    assert held is not None
    assert "grammar" in held.enforced
    for receipt in (lost, unconstrained):
        assert receipt is not None
        assert "grammar" in receipt.checked
        assert "grammar" not in receipt.enforced


def test_a_text_that_does_not_match_is_refused_by_any_engine() -> None:
    receipt, notes = receipt_of("medium")
    assert receipt is not None
    assert receipt.how is How.REFUSED
    assert "grammar" in notes[0]


def test_a_function_cannot_name_a_grammar_in_its_schema() -> None:
    text = {"type": "string", "x-grammar": {"syntax": "regex", "definition": "low"}}
    tool = ToolDefinition("f", "", {"type": "object", "properties": {"input": text}})
    matcher = ByteMatcher(emit_lark(bind(get_format("hermes"), [tool], ToolChoice.required())))
    assert matcher.accepts('<tool_call>\n{"name": "f", "arguments": {"input": "none"}}\n</tool_call>')


def test_gbnf_writes_the_text_as_any_string() -> None:
    free = ToolDefinition.custom("set_level", "Sets a level.")
    format = get_format("hermes")
    assert emit_gbnf(bind(format, [LEVEL])).text == emit_gbnf(bind(format, [free])).text
