"""`import ferrule` is cheap, and no public module brings an optional package, so that a small program stays small."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from architecture.public_surface import expected_exports, needs_framework
from architecture.source_tree import ROOT, SRC

# Beside a program that imports nothing but asyncio, in the same moments: a busy core takes longer over both.
MOST_TIMES_ASYNCIO = 4.0
TRIES = 5
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
    "redis",
    "rich",
    "starlette",
    "uvicorn",
    "xllamacpp",
)
IMPORT_AND_REPORT = """
import {module}, json, sys, time
print(json.dumps({{"cpu": time.process_time(), "modules": sorted(sys.modules)}}))
"""


@pytest.fixture(scope="module")
def reports() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return [(_fresh_import("ferrule"), _fresh_import("asyncio")) for _ in range(TRIES)]


def test_importing_ferrule_takes_little_cpu(reports: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    best = min(ours["cpu"] / plain["cpu"] for ours, plain in reports)
    assert best < MOST_TIMES_ASYNCIO, (
        f"{best:.1f} times the CPU of importing asyncio, allowed {MOST_TIMES_ASYNCIO}: "
        "find the slow one with `python -X importtime -c 'import ferrule'` and import it later"
    )


def test_importing_ferrule_brings_no_optional_package(
    reports: list[tuple[dict[str, Any], dict[str, Any]]],
) -> None:
    brought = sorted(set(OPTIONAL) & set(reports[0][0]["modules"]))
    assert not brought, f"`import ferrule` also imports {brought}: import them inside the function that needs them"


def test_importing_the_public_modules_brings_no_optional_package() -> None:
    public = [module for module in expected_exports() if not needs_framework(module)]
    brought = sorted(set(OPTIONAL) & set(_fresh_import(", ".join(public))["modules"]))
    assert not brought, f"a public module imports {brought}: export its names lazily (ferrule.lazy_exports)"


def _fresh_import(module: str) -> dict[str, Any]:
    # An installed package has its bytecode, whatever this environment says about writing it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    child = subprocess.run(
        [sys.executable, "-c", IMPORT_AND_REPORT.format(module=module)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**environment, "PYTHONPATH": str(SRC)},
    )
    return json.loads(child.stdout)
