"""Law 1: in every format, a rendered reply parses back to itself, or rendering is refused for a reason."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.reply import Reply
from ferrule.errors import UnrenderableError
from ferrule.wire.format import Format
from ferrule.wire.parse_plan import plan_of
from ferrule.wire.parser import parse
from ferrule.wire.registry import all_formats
from ferrule.wire.renderer import is_same_part, render
from laws.examples import per_format
from laws.replies import TOOLS, all_strings, easy_text, notations, own_markers, replies

FORMATS = all_formats()
# Visible characters: no white space, no control character and no half of a surrogate pair.
BARE_KEY = re.compile(r"[^\s\x00-\x20\x7f-\xa0\ud800-\udfff:=,{}\[\]()\"'<>|]+")


def has_reason_to_refuse(form: Format, reply: Reply) -> bool:
    """Whether a string contains a marker of the format, or a key needs quotes that its notation does not have."""
    markers = own_markers(form)
    bare = any(notation.has_bare_keys for notation in notations(form.calls.call))
    return any(
        any(marker in text for marker in markers) or (bare and kind == "key" and not BARE_KEY.fullmatch(text))
        for kind, text in all_strings(reply)
    )


def is_same_reply(form: Format, expected: Reply, actual: Reply) -> bool:
    with_ids = plan_of(form).writes_ids
    return len(expected.parts) == len(actual.parts) and all(
        is_same_part(a, b, with_ids) for a, b in zip(expected.parts, actual.parts, strict=True)
    )


@pytest.mark.parametrize("name", FORMATS)
@per_format(20)
@given(data=st.data())
def test_a_rendered_reply_reads_back_as_itself_or_is_refused_for_a_marker_in_it(name: str, data: st.DataObject) -> None:
    form = FORMATS[name]
    reply = data.draw(replies(form))
    try:
        text = render(form, reply, TOOLS)
    except UnrenderableError:
        text = None
    if text is None:
        assert has_reason_to_refuse(form, reply), "refused without a reason"
        return
    parsed = parse(form, text, TOOLS)
    assert is_same_reply(form, reply, parsed), f"{text!r} reads as {parsed}"
    assert not parsed.diagnostics, parsed.diagnostics


@pytest.mark.parametrize("name", FORMATS)
@per_format(20)
@given(data=st.data())
def test_a_reply_without_markers_in_it_is_never_refused(name: str, data: st.DataObject) -> None:
    form = FORMATS[name]
    reply = data.draw(replies(form, easy_text))
    if has_reason_to_refuse(form, reply):
        return
    assert is_same_reply(form, reply, parse(form, render(form, reply, TOOLS), TOOLS))
