"""The rest of a string, after its opening quote, admits what the whole string admits in llguidance's JSON."""

from ferrule.rules.lark import emit_lark
from ferrule.rules.matcher import ByteMatcher
from ferrule.rules.rule import Rule, Str, seq
from ferrule.rules.skip.member_expansion import TAIL

WHOLE = ByteMatcher('start: %json {"type": "string"}')
REST = ByteMatcher(emit_lark(Rule(seq('"', Str(TAIL)))))
CONTENTS = [
    *(chr(code) for code in range(0x100)),
    *(f"\\{chr(code)}" for code in range(0x20, 0x7F)),
    *(f"\\u{code:04x}" for code in (*range(0x100), 0x2028, 0xD83D, 0xFFFF)),
    *("\\u001F", "\\u007F", "\\u00E9", "\\ud83d\\ude00", "\u2028", "é", "🔼", "https:\\/\\/"),
]


def test_the_rest_of_a_string_admits_what_the_whole_admits() -> None:
    texts = [f'"{content}"' for content in CONTENTS]
    assert [text for text in texts if REST.accepts(text) != WHOLE.accepts(text)] == []
