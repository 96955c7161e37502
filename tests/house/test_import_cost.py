"""`import ferrule` is cheap and brings no optional package, so that a small program stays small."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from house.source_tree import ROOT, SRC

MOST_CPU_SECONDS = 0.25
TRIES = 3
OPTIONAL = (
    "agents",
    "aiohttp",
    "anthropic",
    "crewai",
    "httpx",
    "httpx2",
    "langchain_core",
    "llama_index",
    "mcp",
    "nats",
    "openai",
    "opentelemetry",
    "prometheus_client",
    "psycopg",
    "pydantic",
    "pydantic_ai",
    "rich",
    "starlette",
    "uvicorn",
    "xllamacpp",
)
# CPU time and not the clock, so that a busy machine does not fail the test.
IMPORT_AND_REPORT = """
import ferrule, json, os, sys
used = os.times()
print(json.dumps({"cpu": used.user + used.system, "modules": sorted(sys.modules)}))
"""


@pytest.fixture(scope="module")
def reports() -> list[dict[str, Any]]:
    return [_fresh_import() for _ in range(TRIES)]


def test_importing_ferrule_takes_little_cpu(reports: list[dict[str, Any]]) -> None:
    best = min(report["cpu"] for report in reports)
    assert best < MOST_CPU_SECONDS, (
        f"{best:.2f} s of CPU, allowed {MOST_CPU_SECONDS}: "
        "find the slow one with `python -X importtime -c 'import ferrule'` and import it later"
    )


def test_importing_ferrule_brings_no_optional_package(reports: list[dict[str, Any]]) -> None:
    brought = sorted(set(OPTIONAL) & set(reports[0]["modules"]))
    assert not brought, f"`import ferrule` also imports {brought}: import them inside the function that needs them"


def _fresh_import() -> dict[str, Any]:
    child = subprocess.run(
        [sys.executable, "-c", IMPORT_AND_REPORT],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(SRC)},
    )
    return json.loads(child.stdout)
