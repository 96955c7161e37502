"""The environment of a measurement: the date, the machine without its name, and the versions of other software."""

import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from lab.paths import CACHE

_PINS = {"vLLM": "wheels/vllm", "SGLang": "wheels/sglang", "templates": "templates"}


def measured_environment(cache: Path = CACHE) -> dict[str, str]:
    """Return the environment. The versions of other parsers and templates are included if they are installed."""
    pins = {who: cache / folder / ".pins" for who, folder in _PINS.items()}
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} cores, {_cpu_model()}",
        "Python": platform.python_version(),
        "Ferrule": version("ferrule"),
        **{who: file.read_text(encoding="utf-8").strip() for who, file in pins.items() if file.exists()},
    }


def describe_environment(environment: Mapping[str, str]) -> str:
    """The environment as one line for a page."""
    parts = [
        environment["date"],
        environment["machine"],
        f"Python {environment['Python']}",
        f"Ferrule {environment['Ferrule']}",
    ]
    parsers = [environment[who] for who in ("vLLM", "SGLang") if who in environment]
    if parsers:
        parts.append(f"parsers of {' and '.join(parsers)}")
    if "templates" in environment:
        parts.append(f"chat templates from {environment['templates']}")
    return "; ".join(parts) + "."


def _cpu_model(listing: Path = Path("/proc/cpuinfo")) -> str:
    if listing.exists():
        for line in listing.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
