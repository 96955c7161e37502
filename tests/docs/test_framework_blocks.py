"""A block for a framework is quoted from its example, which runs in an interpreter that has the framework."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent, indent

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python framework=(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
QUOTES = [
    pytest.param(name, code, id=f"{page.name}-{name}")
    for page in sorted((ROOT / "docs").rglob("*.md"))
    for name, code in BLOCK.findall(page.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("name, code", QUOTES)
def test_code_for_a_framework_on_a_page_is_in_its_example(name: str, code: str) -> None:
    examples = sorted((ROOT / "examples" / "frameworks").glob(f"{name}*.py"))
    # Inside a function it is indented more than on a page.
    variants = [indent(dedent(code), " " * depth) for depth in (0, 4, 8)]
    assert any(one in example.read_text(encoding="utf-8") for example in examples for one in variants), (
        f"quote it anew from {', '.join(example.name for example in examples) or f'an example for {name}'}"
    )
