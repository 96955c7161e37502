"""What a receipt prints, and that it is not part of its call."""

from ferrule.core.call import How, Receipt, ToolCall
from ferrule.core.event import ArgumentsDelta, CallEnd, CallStart
from ferrule.core.json_text import dumps
from ferrule.core.reply import fold

SEALED = Receipt(
    how=How.GRAMMAR,
    engine="llama",
    path="completion+lark",
    format="hermes",
    rule="0f",
    enforced=("required", "type"),
    checked=("not",),
    seconds=0.5,
    tokens=21,
)


def test_a_receipt_prints_in_one_line_that_names_everything_it_claims():
    line = str(SEALED)
    assert "\n" not in line
    for word in ("grammar", "llama", "completion+lark", "hermes", "0f", "required, type", "checked after not", "21"):
        assert word in line


def test_a_receipt_serialises_to_json():
    assert dumps(SEALED.as_dict()).startswith('{"how": "grammar", "engine": "llama"')


def test_a_receipt_arrives_with_the_end_of_its_call():
    reply = fold([CallStart(0, "a", "add"), ArgumentsDelta(0, "{}"), CallEnd(0, receipt=SEALED)])
    assert reply.calls[0].receipt is SEALED


def test_calls_are_equal_whatever_their_receipts_say():
    reply = fold([CallStart(0, "a", "add"), ArgumentsDelta(0, "{}"), CallEnd(0, receipt=SEALED)])
    assert reply.calls[0] == ToolCall.of("add", id="a")


def test_the_meaning_is_the_same_whether_a_keyword_was_enforced_or_checked():
    weaker = Receipt(how=How.VALIDATED, engine="ollama", path="chat", checked=("not", "required", "type"))
    assert weaker.meaning == SEALED.meaning
