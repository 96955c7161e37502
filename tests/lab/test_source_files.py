"""The report of files: what it counts, and which modules it names."""

from __future__ import annotations

from lab.source_files import code_lines, small_with_one_importer

SOURCE = '''"""What it is for.

Two more lines.
"""

# A comment.
VALUE = 1


def double() -> int:
    """Twice."""
    return 2 * VALUE
'''


def test_explanations_and_empty_lines_are_not_counted() -> None:
    assert code_lines(SOURCE) == 3


def test_a_small_module_with_one_importer_in_its_package_is_named() -> None:
    sources = {
        "a.small": SOURCE,
        "a.popular": SOURCE,
        "b.elsewhere": SOURCE,
        "a.user": "from a import small\nimport a.popular\nfrom b.elsewhere import VALUE\n",
        "a.other": "from a.popular import VALUE\n",
    }
    assert small_with_one_importer(sources) == [(3, "a.small", "a.user")]
    assert small_with_one_importer(sources, limit=3) == []
