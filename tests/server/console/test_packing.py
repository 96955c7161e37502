"""Packaging of the built console; tests/live/test_wheel.py builds a wheel and inspects it."""

from __future__ import annotations

import subprocess
import tomllib
from fnmatch import fnmatch
from typing import Any

from architecture.source_tree import ROOT
from ferrule.server.console.files import STATIC

BUILT = STATIC.relative_to(ROOT).as_posix()


def _build() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]


def test_the_build_is_packaged_although_git_ignores_it() -> None:
    assert any(fnmatch(f"/{BUILT}/assets/index-Dk3fQ9_x.js", pattern) for pattern in _build()["artifacts"])
    assert BUILT.startswith(_build()["targets"]["wheel"]["packages"][0])
    ignored = subprocess.run(["git", "check-ignore", "--quiet", f"{BUILT}/index.html"], cwd=ROOT, check=False)
    assert ignored.returncode == 0


def test_the_source_distribution_contains_the_sources_of_the_console() -> None:
    assert "/console" in _build()["targets"]["sdist"]["include"]
    ignored = subprocess.run(["git", "check-ignore", "--quiet", "console/node_modules/x"], cwd=ROOT, check=False)
    assert ignored.returncode == 0
    assert "scripts/setup-console" in (ROOT / "scripts" / "setup").read_text()
