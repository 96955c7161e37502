"""Hardware: what this process may use of the machine, and the settings of llama.cpp that fit it.

Reads Linux's files about processors, control groups and memory. Where they are missing, Python's own counts are used.
The choice is a function of values, so that it can be tested for machines that are not here.

llama.cpp's threads wait for each other by spinning. A thread that the operating system does not schedule stops all of
them: on two busy cores, two threads were measured to be a hundred times slower than one (docs/how-to/tune.md). So one
core is always left to the others, and cores that are busy when the model is loaded are not counted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

_CPUS = Path("sys/devices/system/cpu")
_GROUPS = Path("sys/fs/cgroup")
_MOST_THREADS = 16
"""More threads than this rarely make one answer faster, because memory is what limits it."""
_MOST_TOKENS = 32_768
"""How many tokens the cache of all slots holds at most, if nothing is set."""
_DEFAULT_CONTEXT, _LEAST_CONTEXT, _CONTEXT_STEP = 4096, 1024, 256
_CACHE_SHARE = 0.5
"""The part of the memory beside the weights that the cache may take."""
_BYTES_PER_VALUE = 2
ALL_LAYERS = -1
"""llama.cpp itself then places as many layers on the GPU as its memory holds."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """What this process may use. `memory` is in bytes, 0 if unknown; `busy` is how many cores others use."""

    cores: int
    memory: int = 0
    busy: float = 0.0
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelSize:
    """What a model needs: the bytes of its weights, the bytes of its cache for one token, and its trained context."""

    weights: int
    bytes_per_token: int = 0
    trained_context: int = 0

    @staticmethod
    def of(metadata: Mapping[str, Any], weights: int) -> ModelSize:
        """Read the size from a GGUF head. What it does not say counts as 0."""
        name = metadata.get("general.architecture")

        def numbers(key: str) -> list[int]:
            value = metadata.get(f"{name}.{key}")
            values = cast("list[object]", value) if isinstance(value, list) else [value]
            return [number for number in values if isinstance(number, int) and number > 0]

        layers, heads = numbers("block_count"), numbers("attention.head_count")
        cached_heads = numbers("attention.head_count_kv") or heads
        trained = numbers("context_length")
        if not layers or not heads or not cached_heads:
            return ModelSize(weights, 0, trained[0] if trained else 0)
        width = sum(numbers("embedding_length")[:1]) // heads[0]
        key_and_value = sum((numbers(f"attention.{part}_length") or [width])[0] for part in ("key", "value"))
        # A list has one number for each layer.
        total_heads = sum(cached_heads) if len(cached_heads) > 1 else cached_heads[0] * layers[0]
        return ModelSize(weights, total_heads * key_and_value * _BYTES_PER_VALUE, trained[0] if trained else 0)


@dataclass(frozen=True, slots=True)
class LlamaSettings:
    """How llama.cpp runs a model. `context` is of one slot."""

    threads: int
    gpu_layers: int
    context: int
    slots: int

    def note(self, hardware: Hardware) -> str:
        """One line for a person: what was chosen, and how to choose otherwise."""
        threads = f"{_count(self.threads, 'thread')} on {_count(hardware.cores, 'core')}"
        layers = "all layers that fit" if self.gpu_layers == ALL_LAYERS else f"{self.gpu_layers} layers"
        gpu = f"{layers} on {', '.join(hardware.gpus) or 'the GPU'}" if self.gpu_layers else "no GPU"
        slots = f"{_count(self.slots, 'slot')} of {self.context} tokens"
        return f"llama.cpp: {threads}, {gpu}, {slots} (set with ?threads=N&gpu_layers=N&slots=N&context=N)"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' if number > 1 else ''}"


def choose_settings(
    hardware: Hardware,
    size: ModelSize,
    *,
    slots: int,
    threads: int | None = None,
    gpu_layers: int | None = None,
    context: int | None = None,
) -> LlamaSettings:
    """Choose what is not set."""
    return LlamaSettings(
        threads=_choose_threads(hardware) if threads is None else threads,
        gpu_layers=(ALL_LAYERS if hardware.gpus else 0) if gpu_layers is None else gpu_layers,
        context=_choose_context(hardware, size, slots) if context is None else context,
        slots=slots,
    )


def _choose_threads(hardware: Hardware) -> int:
    idle = hardware.cores - round(hardware.busy)
    return max(1, min(hardware.cores - 1, idle, _MOST_THREADS))


def _choose_context(hardware: Hardware, size: ModelSize, slots: int) -> int:
    if not size.trained_context:
        return _DEFAULT_CONTEXT
    context = min(size.trained_context, max(_DEFAULT_CONTEXT, _MOST_TOKENS // slots))
    if hardware.memory and size.bytes_per_token:
        # A machine may page weights in from the file, so a model that is too large still gets the least context.
        free = max(0, hardware.memory - size.weights) * _CACHE_SHARE
        fitting = int(free / (slots * size.bytes_per_token))
        context = min(context, max(_LEAST_CONTEXT, fitting - fitting % _CONTEXT_STEP))
    return min(context, size.trained_context)


def read_hardware(root: Path = Path("/"), *, gpus: tuple[str, ...] = ()) -> Hardware:
    """Read what this process may use. `root` is where the operating system's files are."""
    allowed = _allowed_cpus(root)
    quota = _cpu_quota(root)
    cores = min(_physical_cores(root, allowed), quota or len(allowed))
    # The load is that of the whole machine, and says nothing about a part of it.
    is_whole = quota is None and len(allowed) == (os.cpu_count() or len(allowed))
    return Hardware(max(1, cores), _available_memory(root), _load(root) if is_whole else 0.0, gpus)


def _allowed_cpus(root: Path) -> frozenset[int]:
    try:
        numbers = _text(root / "proc/self/status").partition("Cpus_allowed_list:")[2].split()
        return frozenset(_cpu_numbers(numbers[0]))
    except (IndexError, ValueError):
        return frozenset(range(os.cpu_count() or 1))


def _cpu_numbers(text: str) -> Iterator[int]:
    """The numbers of a list as Linux writes it: 0-3,8."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _physical_cores(root: Path, allowed: frozenset[int]) -> int:
    """Count cores: two hardware threads of one core share what llama.cpp computes with."""
    siblings = {_text(root / _CPUS / f"cpu{number}/topology/thread_siblings_list") for number in allowed}
    return len(siblings) if "" not in siblings else len(allowed)


def _cpu_quota(root: Path) -> int | None:
    """The processors that the control group may use, at least 1; None if it has no limit."""
    quotas = [_quota_of(*_text(folder / "cpu.max").split()) for folder in _group_folders(root)]
    first = root / _GROUPS / "cpu"
    quotas.append(_quota_of(*(_text(first / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period"))))
    return min((quota for quota in quotas if quota is not None), default=None)


def _quota_of(quota: str = "", period: str = "", *_: str) -> int | None:
    if not quota.isdecimal() or not period.isdecimal() or not int(period):
        return None
    return max(1, int(quota) // int(period))


def _available_memory(root: Path) -> int:
    fields = dict(line.split(":", 1) for line in _text(root / "proc/meminfo").splitlines() if ":" in line)
    words = fields.get("MemAvailable", "").split()
    memory = int(words[0]) * 1024 if words and words[0].isdecimal() else 0
    limits = [_free_of_group(folder, "memory.max", "memory.current") for folder in _group_folders(root)]
    limits.append(_free_of_group(root / _GROUPS / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"))
    return min((limit for limit in (memory, *limits) if limit), default=0)


def _free_of_group(folder: Path, limit: str, used: str) -> int:
    """The bytes that a control group may still take; 0 if it has no limit. Cached files do not count as used."""
    most, now = _text(folder / limit).strip(), _text(folder / used).strip()
    if not most.isdecimal() or not now.isdecimal():
        return 0
    fields = dict(line.split(" ", 1) for line in _text(folder / "memory.stat").splitlines() if " " in line)
    cached = fields.get("inactive_file", "0")
    return max(1, int(most) - int(now) + (int(cached) if cached.isdecimal() else 0))


def _group_folders(root: Path) -> list[Path]:
    """The folders of this process's control group (version 2) and of those above it."""
    lines = [line for line in _text(root / "proc/self/cgroup").splitlines() if line.startswith("0::")]
    base = root / _GROUPS
    if not lines:
        return [base]
    own = base / lines[0].removeprefix("0::").strip().lstrip("/")
    return [base, *(folder for folder in (own, *own.parents) if base in folder.parents)]


def _load(root: Path) -> float:
    """How many cores were busy in the last minute."""
    words = _text(root / "proc/loadavg").split()
    try:
        return float(words[0])
    except (IndexError, ValueError):
        return 0.0


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
