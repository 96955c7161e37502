"""Markdown that streams is cut where nothing that follows can change what was shown."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from ferrule.cli import terminal
from ferrule.cli.markdown_blocks import MarkdownBlocks
from ferrule.core.visible_text import is_hidden

TEXT = """# Title

One paragraph
of two lines.

1. first

   more of it
2. second

```python
x = 1

# no heading
```

~~~~
```
~~~~
The end."""
BLOCKS = [
    "# Title",
    "One paragraph\nof two lines.",
    "1. first\n\n   more of it\n2. second",
    "```python\nx = 1\n\n# no heading\n```",
    "~~~~\n```\n~~~~\nThe end.",
]


def blocks_of(text: str, size: int) -> list[str]:
    blocks = MarkdownBlocks()
    complete = [blocks.add(text[at : at + size]) for at in range(0, len(text), size)]
    return [block for block in [*complete, blocks.take()] if block]


def test_a_text_that_arrives_in_small_pieces_is_cut_into_its_blocks() -> None:
    assert blocks_of(TEXT, 1) == BLOCKS


@pytest.mark.parametrize("size", [1, 2, 3, 7, 20, 1000])
def test_no_character_is_lost_however_the_text_arrives(size: int) -> None:
    assert "".join(blocks_of(TEXT, size)).replace("\n", "") == TEXT.replace("\n", "")


def test_a_fence_that_never_ends_stays_in_the_rest() -> None:
    blocks = MarkdownBlocks()
    assert blocks.add("```\na\n\nb\n\nc\n") == ""
    assert blocks.take() == "```\na\n\nb\n\nc"


def drawn(text: str) -> str:
    output = io.StringIO()
    console = Console(file=output, width=80, force_terminal=True, color_system=None)
    console.print(terminal._markdown(terminal.printable(text)))
    return output.getvalue()


@pytest.mark.parametrize(
    "text, shown",
    [
        ("a <b>bold</b> <!-- secret --> word", "a <b>bold</b> <!-- secret --> word"),
        ("<div>\nhidden\n</div>", "<div>"),
        ("one &#x202e;two &#27;[31m &amp; three", "&#x202e;two &#27;[31m &amp;"),
        ("[safe.example](http://evil.example/x)", "safe.example (http://evil.example/x)"),
        ("![a picture](http://evil.example/?secret)", "http://evil.example/?secret"),
        ("text\n\n[note]: http://evil.example", "[note]: http://evil.example"),
        ("first line\nsecond line", "first line"),
        ("\x1b]0;title\x07 and \x1b[2J", "\\x1b]0;title\\x07 and \\x1b[2J"),
        ("zero\u200bwidth \u202ereversed", "zero\\u200bwidth \\u202ereversed"),
    ],
)
def test_markdown_hides_nothing_and_gives_no_orders_to_the_terminal(text: str, shown: str) -> None:
    page = drawn(text)
    assert shown in page
    assert not [character for character in page if is_hidden(character) and character != "\n"]
