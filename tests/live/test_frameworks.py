"""Each framework's integration, in its own interpreter with the framework's newest version, with a real model."""

from __future__ import annotations

import json
import os
import re
import subprocess
from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest

from live.model import MODEL

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "frameworks.md"
FRAMEWORKS = {
    "langchain": ("langchain", "langchain", "langchain-core"),
    "llamaindex": ("llamaindex", "llama-index-core"),
    "crewai": ("crewai", "crewai"),
    "pydantic-ai": ("pydantic_ai", "pydantic-ai-slim"),
    "openai-agents": ("openai_agents", "openai-agents"),
}
"""The extra, the module of the integration, and the packages that it supports."""

each = pytest.mark.parametrize("extra", FRAMEWORKS)


def interpreter(extra: str) -> Path:
    path = ROOT / ".cache" / "venvs" / f"framework-{extra}" / "bin" / "python"
    assert path.exists(), f"run scripts/setup-frameworks {extra}"
    return path


def run_command(*command: str | Path) -> subprocess.CompletedProcess[str]:
    # Disable the frameworks' telemetry.
    quiet = {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "OPENAI_AGENTS_DISABLE_TRACING": "1"}
    environment = {**os.environ, **quiet, "FERRULE_MODEL": str(MODEL), "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        list(map(str, command)), cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


@each
def test_a_tool_loop_works_both_ways_on_a_real_model(extra: str) -> None:
    module = FRAMEWORKS[extra][0]
    # The conftest of the other tests needs packages that these interpreters do not have.
    options = ("-q", "-p", "no:cacheprovider", "--confcutdir=tests/frameworks")
    done = run_command(interpreter(extra), "-m", "pytest", *options, f"tests/frameworks/test_{module}.py")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


@each
def test_the_example_runs(extra: str) -> None:
    # With the module's own name it would be imported instead of the framework.
    done = run_command(interpreter(extra), f"examples/frameworks/{FRAMEWORKS[extra][0]}_agent.py")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.stdout.strip()


@each
def test_the_adapter_is_fully_typed_against_the_framework_itself(extra: str, tmp_path: Path) -> None:
    adapter = ROOT / "src" / "ferrule" / "integrations" / FRAMEWORKS[extra][0]
    included = adapter if adapter.is_dir() else adapter.with_suffix(".py")
    # A separate project: pyright silently ignores files that pyproject.toml excludes, even if they are named.
    project = tmp_path / "pyrightconfig.json"
    settings = {"typeCheckingMode": "strict", "include": [included], "extraPaths": [ROOT / "src"]}
    project.write_text(json.dumps(settings, default=lambda path: os.path.relpath(path, tmp_path)), encoding="utf-8")
    done = run_command(
        ROOT / ".venv" / "bin" / "pyright", "--project", project, "--pythonpath", interpreter(extra), "--stats"
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert "No source files" not in done.stdout


@each
def test_the_page_lists_the_version_that_was_run(extra: str) -> None:
    """`FERRULE_WRITE_VERSIONS=1` writes the tested versions into the page."""
    packages = FRAMEWORKS[extra][1:]
    expected_calls = ", ".join(f"{name} {installed_versions(extra)[name]}" for name in packages)
    text = PAGE.read_text(encoding="utf-8")
    row = re.compile(rf"^\| `{extra}` \|.*$", re.MULTILINE)
    if os.environ.get("FERRULE_WRITE_VERSIONS"):
        text = row.sub(lambda result: re.sub(r"\| [^|]* \|$", f"| {expected_calls} |", result.group()), text)
        PAGE.write_text(text, encoding="utf-8")
    result = row.search(text)
    assert result is not None
    assert result.group().endswith(f"| {expected_calls} |")


def installed_versions(extra: str) -> dict[str, str]:
    folder = next(interpreter(extra).parents[1].glob("lib/python*/site-packages"))
    result: list[Distribution] = list(distributions(path=[str(folder)]))
    return {entry.metadata["Name"]: entry.version for entry in result}
