"""Contents of files that are hard to carry: quotes, backslashes, line ends, scripts, markers of formats, code."""

import random
from collections.abc import Mapping
from typing import Final

_PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "prose": ("All work and no play makes a long file. ", "It goes on, ", "line by line.\n", "\n"),
    "quotes": ('"', "'", '"""', "'''", '\\"', "\\'", "`", "``", 'say "yes" ', "it's ", "{", "}", ", "),
    "backslashes": ("\\", "\\\\", "\\n", "\\u0041", "C:\\new\\table ", "\\d+\\s*", "/", "\\/", " "),
    "line ends": ("\n", "\r\n", "\r", "\t", "\n\n", "  ", "end", "\u2028", "\u0085", "\x0b", "\x0c"),
    "scripts": ("Ä", "ß", "日本語", "עברית", "🙂", "👩‍👩‍👧", "e\u0301", "\u200b", "\ufeff", " ", "\n"),
    "code": (
        'def f(x: str) -> str:\n    return f"{x!r}\\n"\n',
        '{"name": "write", "arguments": {"a": [1, 2.5e3, null]}}\n',
        "if (a && b) { c = a ? '<b>' : \"</b>\"; }\n",
        "<a href='x'>&amp;</a>\n",
        "sed -e 's/\\(a\\)/\\1b/' | awk '{print $1}' > \"$f\"\n",
        "```python\nprint('hi')\n```\n",
    ),
}
MARKERS: Final = "markers"
KINDS: Final = (*_PARTS, MARKERS)


def content(kind: str, size: int, seed: str, markers: tuple[str, ...]) -> str:
    """A text of exactly SIZE bytes in UTF-8. MARKERS are the texts that the format under test reads as markup."""
    rng = random.Random(f"{kind} {size} {seed}")
    parts = (*markers, " and ", "\n", '"') if kind == MARKERS else _PARTS[kind]
    data = b""
    while len(data) < size:
        data += rng.choice(parts).encode()
    text = data[:size].decode("utf-8", "ignore")
    # The last character may have been cut; full stops take its place.
    return text + "." * (size - len(text.encode()))
