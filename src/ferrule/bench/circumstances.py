"""Under what a measurement was made: the day, the machine in neutral words, and whose versions."""

import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from ferrule.bench.workers import CACHE

_PINS = {"vLLM": "wheels/vllm", "SGLang": "wheels/sglang", "templates": "templates"}


def circumstances() -> dict[str, str]:
    pinned = {who: (CACHE / folder / ".pins").read_text(encoding="utf-8").strip() for who, folder in _PINS.items()}
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} cores, {_cpu_model()}",
        "Python": platform.python_version(),
        "Ferrule": version("ferrule"),
        **pinned,
    }


def told(found: Mapping[str, str]) -> str:
    return (
        f"{found['date']}; {found['machine']}; Python {found['Python']}; Ferrule {found['Ferrule']}; parsers of "
        f"{found['vLLM']} and {found['SGLang']}; chat templates out of {found['templates']}."
    )


def _cpu_model(listing: Path = Path("/proc/cpuinfo")) -> str:
    if listing.exists():
        for line in listing.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
