"""The public names: sorted, real, and changed only on purpose (tests/architecture/exports.txt)."""

from importlib.metadata import version

import ferrule
from architecture.source_tree import ROOT

EXPECTED = ROOT / "tests" / "architecture" / "exports.txt"


def test_the_public_names_are_the_expected_ones() -> None:
    expected = EXPECTED.read_text(encoding="utf-8").split()
    added, lost = sorted(set(ferrule.__all__) - set(expected)), sorted(set(expected) - set(ferrule.__all__))
    assert list(ferrule.__all__) == expected, (
        f"added {added}, lost {lost}: if meant, change tests/architecture/exports.txt and name it in CHANGELOG.md"
    )


def test_the_public_names_are_sorted_and_unique() -> None:
    assert list(ferrule.__all__) == sorted(set(ferrule.__all__)), "sort ferrule.__all__ (capitals first)"


def test_every_public_name_exists() -> None:
    missing = [name for name in ferrule.__all__ if not hasattr(ferrule, name)]
    assert not missing, f"{missing} are in ferrule.__all__ and not in ferrule"


def test_dir_lists_every_public_name_and_the_version() -> None:
    assert {*ferrule.__all__, "__version__"} <= set(dir(ferrule))


def test_the_version_is_that_of_the_package() -> None:
    assert ferrule.__version__ == version("ferrule")
