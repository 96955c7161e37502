"""Under what a measurement was made: the day, the machine in neutral words, and whose versions."""

import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from lab.paths import CACHE

_PINS = {"vLLM": "wheels/vllm", "SGLang": "wheels/sglang", "templates": "templates"}


def circumstances(cache: Path = CACHE) -> dict[str, str]:
    """Whose versions are fetched here is told of; a measurement that needs none of them is not lost for it."""
    pins = {who: cache / folder / ".pins" for who, folder in _PINS.items()}
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} cores, {_cpu_model()}",
        "Python": platform.python_version(),
        "Ferrule": version("ferrule"),
        **{who: file.read_text(encoding="utf-8").strip() for who, file in pins.items() if file.exists()},
    }


def told(found: Mapping[str, str]) -> str:
    parts = [found["date"], found["machine"], f"Python {found['Python']}", f"Ferrule {found['Ferrule']}"]
    parsers = [found[who] for who in ("vLLM", "SGLang") if who in found]
    if parsers:
        parts.append(f"parsers of {' and '.join(parsers)}")
    if "templates" in found:
        parts.append(f"chat templates out of {found['templates']}")
    return "; ".join(parts) + "."


def _cpu_model(listing: Path = Path("/proc/cpuinfo")) -> str:
    if listing.exists():
        for line in listing.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
