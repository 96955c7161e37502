"""MarkdownBlocks: cuts Markdown that streams into blocks that can be shown for good, because nothing changes them.

A paragraph, a list or a fenced block is complete when a blank line and the beginning of something else follow. It must
not know how a block is drawn.
"""

from __future__ import annotations

import re

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


class MarkdownBlocks:
    """Collects text; `add` returns what is complete, `rest` is the beginning of what is not.

    Example:
        blocks = MarkdownBlocks()
        assert blocks.add("One.\\n\\nTw") == "One."
        assert blocks.rest == "Tw"
    """

    def __init__(self) -> None:
        self.rest = ""

    def add(self, text: str) -> str:
        """Add text, and return the blocks that it completes; empty if none."""
        self.rest += text
        end = _end_of_complete(self.rest)
        complete, self.rest = self.rest[:end], self.rest[end:]
        return complete.strip("\n")

    def take(self) -> str:
        """Return the rest, because nothing follows."""
        rest, self.rest = self.rest, ""
        return rest.strip("\n")


def _end_of_complete(text: str) -> int:
    """Where the last block begins that may still grow."""
    fence, begin, at, is_after_blank = "", 0, 0, False
    # The last piece has no line break yet: of an empty one nobody knows how it begins.
    for line in text.splitlines(keepends=True):
        if not fence and is_after_blank and not line[0].isspace():
            begin = at
        fence = _fence_after(fence, line)
        is_after_blank = not fence and not line.strip()
        at += len(line)
    return begin


def _fence_after(fence: str, line: str) -> str:
    """The fence that is open after a line; empty if none is."""
    match = _FENCE.match(line)
    if match is None:
        return fence
    if not fence:
        return match[1]
    closes = match[1][0] == fence[0] and len(match[1]) >= len(fence) and not match[2].strip()
    return "" if closes else fence
