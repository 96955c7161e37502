"""The wheel that users install: built from the files of a clean checkout, installed alone, and served from."""

from __future__ import annotations

import re
import shutil
import subprocess
import urllib.request
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from lab.gateway_process import gateway_process
from lab.paths import ROOT

pytestmark = pytest.mark.live

UV = ROOT / ".venv" / "bin" / "uv"
MOST_BENCH_FILES = 40


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built in a folder that has what is tracked (or would be) and nothing that a build left behind."""
    checkout, out = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("dist")
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, checkout / name)
    assert not (checkout / "src/ferrule/server/console/static").exists()
    subprocess.run([UV, "build", "--quiet", "--wheel", "--out-dir", out, checkout], check=True)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter of an empty venv with the wheel and its server extra."""
    venv = tmp_path_factory.mktemp("installed")
    subprocess.run([UV, "venv", "--quiet", "--clear", venv], check=True)
    interpreter = venv / "bin" / "python"
    subprocess.run([UV, "pip", "install", "--quiet", "--python", interpreter, f"ferrule[server] @ {wheel}"], check=True)
    return interpreter


def test_the_wheel_has_the_console_and_not_the_laboratory(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "ferrule/server/console/static/index.html" in names
    assert not [name for name in names if name.startswith(("lab/", "tests/"))]
    assert sum(name.startswith("ferrule/bench/") for name in names) <= MOST_BENCH_FILES


def test_the_readme_works_outside_the_repository(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        readme = Parser().parsestr(archive.read(metadata).decode()).get_payload()
    assert isinstance(readme, str)
    links = re.findall(r"\]\(([^)]+)\)", readme)
    assert links
    assert not [link for link in links if not link.startswith("https://")]


def test_the_installed_wheel_imports_and_serves_its_console(python: Path, tmp_path: Path) -> None:
    subprocess.run([python, "-c", "import ferrule; assert ferrule.ToolDefinition"], check=True, cwd=tmp_path)
    with (
        gateway_process(engine="m=vllm:http://127.0.0.1:9", python=python) as gateway,
        urllib.request.urlopen(f"{gateway.url}/console/") as answer,
    ):
        assert answer.status == 200
        assert b"<title>" in answer.read()
