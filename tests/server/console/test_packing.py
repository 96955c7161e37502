"""How the built page gets into a distribution; tests/live/test_wheel.py builds one and looks."""

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


def test_what_is_built_is_packed_though_it_is_not_tracked() -> None:
    assert any(fnmatch(f"/{BUILT}/assets/index-Dk3fQ9_x.js", pattern) for pattern in _build()["artifacts"])
    assert BUILT.startswith(_build()["targets"]["wheel"]["packages"][0])
    ignored = subprocess.run(["git", "check-ignore", "--quiet", f"{BUILT}/index.html"], cwd=ROOT, check=False)
    assert ignored.returncode == 0


def test_who_has_the_sources_has_those_of_the_page() -> None:
    assert "/console" in _build()["targets"]["sdist"]["include"]
    ignored = subprocess.run(["git", "check-ignore", "--quiet", "console/node_modules/x"], cwd=ROOT, check=False)
    assert ignored.returncode == 0
    assert "scripts/setup-console" in (ROOT / "scripts" / "setup").read_text()
