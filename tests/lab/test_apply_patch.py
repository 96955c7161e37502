"""The parser that judges patches reads what a patch is, apart from the grammar."""

from __future__ import annotations

import pytest

from ferrule.rules.text_grammar import text_faults
from lab.apply_patch import GRAMMAR, apply_patch, question, read_patch


def right_patch(number: int) -> str:
    asked = question(number)
    pairs = zip(asked.old.splitlines(), asked.new.splitlines(), strict=True)
    lines = [f"-{old}\n+{new}" if old != new else f" {old}" for old, new in pairs]
    return "\n".join(["*** Begin Patch", f"*** Update File: {asked.file}", "@@", *lines, "*** End Patch"])


@pytest.mark.parametrize("number", range(20))
def test_the_right_patch_of_each_question_makes_the_change(number: int) -> None:
    patch = right_patch(number)
    hunks = read_patch(patch)
    assert hunks is not None
    assert apply_patch(hunks, question(number)) == question(number).new
    assert not text_faults(GRAMMAR, patch)


TEXTS = [
    "*** Begin Patch\n*** Delete File: a\n*** End Patch",
    "*** Begin Patch\n*** Add File: a\n+x\n+\n*** End Patch\n",
    "*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** End Patch",
    "*** Begin Patch\n*** Update File: a\n@@ def f\n x\n-y\n*** End of File\n*** End Patch",
    "",
    "*** Begin Patch\n*** End Patch",
    "*** Begin Patch\n*** Add File: a\n*** End Patch",
    "*** Begin Patch\n*** Add File: a\nx\n*** End Patch",
    "*** Begin Patch\n*** Update File: a\nx = 1\n*** End Patch",
    "*** Begin Patch\n*** Update File: a\n*** End of File\n*** End Patch",
    "*** Begin Patch\n*** Update File: a\n+x\n*** End of File\n+y\n*** End Patch",
    "*** Begin Patch\n-x\n*** End Patch",
    "*** Begin Patch\n*** Update File: \n+x\n*** End Patch",
    "```diff\n-x\n+y\n```",
]


@pytest.mark.parametrize("text", TEXTS)
def test_the_parser_and_the_grammar_agree(text: str) -> None:
    assert (read_patch(text) is not None) == (not text_faults(GRAMMAR, text))
