"""Row 15: little is installed with Ferrule, and installing it runs nothing."""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_core_needs_few_packages_and_each_is_explained() -> None:
    assert len(PROJECT["project"]["dependencies"]) <= 6


def test_building_it_runs_no_program_of_ours() -> None:
    build = PROJECT["tool"]["hatch"]["build"]
    assert "hooks" not in build
    assert not any("hooks" in target for target in build["targets"].values())
    assert PROJECT["build-system"]["requires"] == ["hatchling>=1.27"]
    assert not any((ROOT / name).exists() for name in ("setup.py", "hatch_build.py"))


def test_no_file_of_ours_runs_when_python_starts() -> None:
    assert not list((ROOT / "src").rglob("*.pth"))
    assert not list((ROOT / "src").rglob("sitecustomize.py"))


def test_what_is_installed_here_starts_nothing_with_python_but_ourselves() -> None:
    """A `.pth` line that begins with `import` runs whenever Python starts: the way in of 2026."""
    running: list[str] = []
    for found in importlib.metadata.distributions():
        for file in found.files or ():
            if file.name.endswith(".pth"):
                lines = Path(str(found.locate_file(file))).read_text(encoding="utf-8").splitlines()
                running += [f"{found.name}: {line[:60]}" for line in lines if line.startswith(("import ", "import\t"))]
    # setuptools' own, in every virtual environment of this Python.
    assert [line for line in running if not line.startswith("setuptools:")] == []
