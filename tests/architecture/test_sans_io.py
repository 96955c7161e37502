"""The core of Ferrule does no IO: no socket, clock, thread, task, process, log or dice. Text in, events out."""

import json
import os
import subprocess
import sys

from architecture.source_tree import ROOT, SRC, all_imports, is_inside, modules

SANS_IO_PACKAGES = (
    "ferrule.core",
    "ferrule.schema",
    "ferrule.rules",
    "ferrule.wire",
    "ferrule.dialects",
    "ferrule.run.machine",
    "ferrule.run.policy",
    "ferrule.sources.bus.frame",
    "ferrule.sources.bus.micro",
    "ferrule.sources.bus.names",
    "ferrule.sources.bus.deduplication",
    "ferrule.sources.bus.subject",
    "ferrule.sources.bus.token",
)
BLOCKED = (
    "_thread",
    "asyncio",
    "concurrent",
    "logging",
    "multiprocessing",
    "random",
    "sched",
    "select",
    "selectors",
    "socket",
    "ssl",
    "subprocess",
    "threading",
    "time",
)
ALLOWED = {"ferrule.core.byte_cache imports threading"}
"""A lock that starts no thread: threads share the caches, and the sum of their sizes must stay right."""
REMEDY = "pass the value in from a package that does IO, or move the code there"

# Runs in a new process and records each blocked import of our packages while their modules are imported.
# Third-party packages may import anything; the importing frame's __name__ distinguishes them.
WATCH_IMPORTS = """
import builtins, importlib, json, sys

modules, packages, blocked = json.loads(sys.argv[1])
real_import = builtins.__import__
seen = []

def watched_import(name, globals=None, locals=None, fromlist=(), level=0):
    importer = (globals or {}).get("__name__") or ""
    ours = any(importer == package or importer.startswith(package + ".") for package in packages)
    if ours and level == 0 and name.partition(".")[0] in blocked:
        seen.append(f"{importer} imports {name}")
    return real_import(name, globals, locals, fromlist, level)

builtins.__import__ = watched_import
for module in modules:
    importlib.import_module(module)
print(json.dumps(seen))
"""


def is_sans_io(module: str) -> bool:
    return any(is_inside(module, package) for package in SANS_IO_PACKAGES)


def test_importing_the_core_reaches_for_no_io() -> None:
    job = json.dumps([[module for module in modules() if is_sans_io(module)], SANS_IO_PACKAGES, BLOCKED])
    child = subprocess.run(
        [sys.executable, "-c", WATCH_IMPORTS, job],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(SRC)},
    )
    assert child.returncode == 0, f"a module of the core cannot be imported alone:\n{child.stderr}"
    imports = sorted(set(json.loads(child.stdout)) - ALLOWED)
    assert not imports, "\n  ".join(["", *imports, REMEDY])


def test_no_function_of_the_core_imports_io_later() -> None:
    late = [
        str(each)
        for each in all_imports()
        if is_sans_io(each.importer)
        and each.package in BLOCKED
        and f"{each.importer} imports {each.package}" not in ALLOWED
    ]
    assert not late, "\n  ".join(["", *late, REMEDY])
