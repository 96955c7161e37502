"""No paths of one machine in the tree, and nothing that hides a failure."""

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from architecture.source_tree import ROOT

# Spelled in two parts, so that this file does not find itself.
NOT_IN_ANY_FILE = {
    "a path of one machine": r"(?<![\w.])/(?:" + r"work|root" + r")/|(?<![\w.])/ho" + r"me/\w",
    "the address of a package index": "--index" + "-url|extra-index" + "-url",
}
NOT_IN_PYTHON = {
    "a test that is not run": r"pytest\.sk" + r"ip|mark\.sk" + r"ip|xf" + r"ail|importor" + r"skip",
}
BROAD_EXCEPT = re.compile(r"^\s*except\b\*?\s*(?::|[^:#]*\b(?:Base)?Exception\b)")


@cache
def texts() -> dict[Path, str]:
    """Every text file that is tracked, or would be if it were added now."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    contents: dict[Path, str] = {}
    for name in filter(None, listed.stdout.decode().split("\0")):
        path = ROOT / name
        content = path.read_bytes() if path.is_file() else b"\0"
        if b"\0" not in content:
            contents[Path(name)] = content.decode("utf-8", errors="replace")
    return contents


def places(pattern: str, paths: list[Path]) -> list[str]:
    return [
        f"{path}:{number}: {line.strip()[:100]}"
        for path in paths
        for number, line in enumerate(texts()[path].splitlines(), start=1)
        if re.search(pattern, line)
    ]


@pytest.mark.parametrize("what", NOT_IN_ANY_FILE)
def test_no_file_holds(what: str) -> None:
    matches = places(NOT_IN_ANY_FILE[what], list(texts()))
    assert not matches, _report(what, matches, "use a path from the repository's root, or a setting")


@pytest.mark.parametrize("what", NOT_IN_PYTHON)
def test_no_python_file_holds(what: str) -> None:
    matches = places(NOT_IN_PYTHON[what], [path for path in texts() if path.suffix == ".py"])
    assert not matches, _report(what, matches, "run it, mark it `live` or `oracle`, or remove it")


def unexplained_broad_excepts(text: str) -> list[int]:
    """The lines with a broad except and no comment on the same line or directly above."""
    lines = ["", *text.splitlines()]
    return [
        number
        for number, line in enumerate(lines)
        if BROAD_EXCEPT.search(line) and "#" not in line and not lines[number - 1].lstrip().startswith("#")
    ]


def test_a_broad_except_in_the_package_has_its_reason_beside_it() -> None:
    matches = [
        f"{path}:{number}"
        for path, text in texts().items()
        if path.parts[0] in ("src", "lab") and path.suffix == ".py"
        for number in unexplained_broad_excepts(text)
    ]
    remedy = "name the errors that can happen; at a boundary that must catch everything, a comment above says why"
    assert not matches, _report("a broad except without a reason", matches, remedy)


@pytest.mark.parametrize(
    "line",
    ["cd /wo" + "rk/main", "/ho" + "me/ann/x", "see /ro" + "ot/.cache", "pip install --index" + "-url x"],
)
def test_the_search_finds_what_it_is_for(line: str) -> None:
    assert any(re.search(pattern, line) for pattern in NOT_IN_ANY_FILE.values())


@pytest.mark.parametrize(
    "line", ["except:", "except Exception:", "except (Exception, OSError) as e:", "except BaseException:"]
)
def test_the_search_finds_broad_excepts_without_a_reason(line: str) -> None:
    block = f"try:\n    work()\n    {line}\n        pass"
    assert unexplained_broad_excepts(block) == [3]
    assert unexplained_broad_excepts(block.replace(line, f"# A tool may raise anything.\n    {line}")) == []
    assert unexplained_broad_excepts(block.replace(line, f"{line}  # a tool may raise anything")) == []


def _report(what: str, matches: list[str], remedy: str) -> str:
    return "\n  ".join([what, *matches, remedy])
