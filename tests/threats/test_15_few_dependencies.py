"""Row 15: Ferrule has few dependencies, and installing it runs no code."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_core_needs_few_packages_and_each_is_explained() -> None:
    assert len(PROJECT["project"]["dependencies"]) <= 6


def test_installing_it_runs_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wheel runs nothing. An sdist runs the one build hook, which finds the built console and starts nothing."""
    assert not (ROOT / "setup.py").exists()
    assert PROJECT["tool"]["hatch"]["build"]["hooks"] == {"custom": {}}
    assert PROJECT["build-system"]["requires"] == ["hatch-fancy-pypi-readme>=25.1", "hatchling>=1.27"]
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    hook_module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook_module)
    (tmp_path / "PKG-INFO").touch()
    static = tmp_path / hook_module.STATIC
    static.mkdir(parents=True)
    (static / "index.html").touch()
    started: list[object] = []
    monkeypatch.setattr(subprocess, "run", lambda *command, **options: started.append(command))
    hook = hook_module.ConsoleBuildHook(str(tmp_path), {}, None, None, str(tmp_path), "wheel")
    hook.initialize("standard", {})
    assert not started
    (static / "index.html").unlink()
    with pytest.raises(RuntimeError, match="the console is not built"):
        hook.initialize("standard", {})


def test_no_file_of_ours_runs_when_python_starts() -> None:
    assert not list((ROOT / "src").rglob("*.pth"))
    assert not list((ROOT / "src").rglob("sitecustomize.py"))


def test_no_installed_package_runs_code_when_python_starts() -> None:
    """A `.pth` line that begins with `import` runs whenever Python starts, a known supply chain attack."""
    lines_run: list[str] = []
    for distribution in importlib.metadata.distributions():
        for file in distribution.files or ():
            if file.name.endswith(".pth"):
                lines = Path(str(distribution.locate_file(file))).read_text(encoding="utf-8").splitlines()
                lines_run += [
                    f"{distribution.name}: {line[:60]}" for line in lines if line.startswith(("import ", "import\t"))
                ]
    # setuptools installs one in every virtual environment of this Python.
    assert [line for line in lines_run if not line.startswith("setuptools:")] == []
