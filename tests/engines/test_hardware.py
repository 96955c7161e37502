"""Threads, GPU layers and context fit what the machine has, and are safe on a small machine that is busy."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.engines.hardware import ALL_LAYERS, Hardware, LlamaSettings, ModelSize, choose_settings, read_hardware

QWEN = ModelSize(weights=491_400_064, bytes_per_token=12_288, trained_context=32_768)
GIGABYTE = 1 << 30


@pytest.mark.parametrize(
    "cores, busy, threads",
    [(1, 0.0, 1), (2, 0.0, 1), (2, 10.0, 1), (4, 0.0, 3), (8, 0.2, 7), (8, 5.0, 3), (8, 30.0, 1), (96, 0.0, 16)],
)
def test_one_core_is_left_to_others_and_busy_cores_are_not_used(cores: int, busy: float, threads: int) -> None:
    assert choose_settings(Hardware(cores, busy=busy), QWEN, slots=4).threads == threads


@pytest.mark.parametrize("memory, slots, context", [(32, 4, 8192), (32, 1, 32_768), (1, 4, 5888), (0, 4, 8192)])
def test_the_context_is_the_trained_one_as_far_as_memory_holds_it(memory: int, slots: int, context: int) -> None:
    assert choose_settings(Hardware(2, memory * GIGABYTE), QWEN, slots=slots).context == context


def test_a_machine_smaller_than_the_model_still_gets_a_context() -> None:
    assert choose_settings(Hardware(1, 64 << 20), QWEN, slots=4).context == 1024


def test_a_short_trained_context_is_never_exceeded() -> None:
    assert choose_settings(Hardware(1, GIGABYTE), ModelSize(1, 100, 512), slots=1).context == 512


@given(
    st.builds(Hardware, st.integers(1, 512), st.integers(0, 1 << 42), st.floats(0, 1000)),
    st.builds(ModelSize, st.integers(0, 1 << 40), st.integers(0, 1 << 22), st.integers(0, 1 << 20)),
    st.integers(1, 64),
)
def test_every_machine_gets_settings_that_it_can_run(hardware: Hardware, size: ModelSize, slots: int) -> None:
    settings = choose_settings(hardware, size, slots=slots)
    assert 1 <= settings.threads <= max(1, hardware.cores - 1)
    assert 0 < settings.context <= (size.trained_context or 4096)


def test_what_is_set_is_kept() -> None:
    settings = choose_settings(Hardware(8, gpus=("CUDA0",)), QWEN, slots=2, threads=8, gpu_layers=0, context=100)
    assert settings == LlamaSettings(threads=8, gpu_layers=0, context=100, slots=2)


def test_a_gpu_gets_all_layers_that_fit_and_the_line_says_so() -> None:
    hardware = Hardware(2, gpus=("CUDA0",))
    settings = choose_settings(hardware, QWEN, slots=1)
    assert settings.gpu_layers == ALL_LAYERS
    assert settings.note(hardware) == (
        "llama.cpp: 1 thread on 2 cores, all layers that fit on CUDA0, 1 slot of 32768 tokens "
        "(set with ?threads=N&gpu_layers=N&slots=N&context=N)"
    )


def test_the_cache_of_a_token_follows_from_the_head_of_the_file() -> None:
    head = {"block_count": 24, "attention.head_count": 14, "attention.head_count_kv": 2, "embedding_length": 896}
    metadata = {"general.architecture": "qwen2", **{f"qwen2.{key}": value for key, value in head.items()}}
    assert ModelSize.of({**metadata, "qwen2.context_length": 32_768}, 1) == ModelSize(1, 12_288, 32_768)
    by_layer = {**metadata, "qwen2.attention.head_count_kv": [2, 0, 2], "qwen2.attention.key_length": 128}
    assert ModelSize.of(by_layer, 1).bytes_per_token == 4 * (128 + 64) * 2
    assert ModelSize.of({"general.architecture": "odd", "odd.block_count": "many"}, 7) == ModelSize(7)


def test_a_container_has_its_quota_and_its_memory_limit(tmp_path: Path) -> None:
    files = {
        "proc/self/status": "Cpus_allowed_list:\t0-7\n",
        "proc/self/cgroup": "0::/pod/box\n",
        "proc/meminfo": "MemTotal: 67108864 kB\nMemAvailable: 60000000 kB\n",
        "proc/loadavg": "40.00 1 1 1/1 1\n",
        "sys/fs/cgroup/pod/cpu.max": "350000 100000\n",
        "sys/fs/cgroup/pod/box/cpu.max": "max 100000\n",
        "sys/fs/cgroup/pod/box/memory.max": "2000000000\n",
        "sys/fs/cgroup/pod/box/memory.current": "1500000000\n",
        "sys/fs/cgroup/pod/box/memory.stat": "anon 1\ninactive_file 500000000\n",
    }
    # Four cores with two hardware threads each.
    files |= {
        f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list": f"{cpu % 4},{cpu % 4 + 4}\n"
        for cpu in range(8)
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert read_hardware(tmp_path) == Hardware(cores=3, memory=1_000_000_000)
    (tmp_path / "sys/fs/cgroup/pod/cpu.max").write_text("max 100000\n")
    assert read_hardware(tmp_path).cores == 4
    old = tmp_path / "sys/fs/cgroup/cpu"
    old.mkdir()
    (old / "cpu.cfs_quota_us").write_text("50000\n")
    (old / "cpu.cfs_period_us").write_text("100000\n")
    assert read_hardware(tmp_path).cores == 1


def test_a_system_without_these_files_has_the_cores_that_python_counts(tmp_path: Path) -> None:
    hardware = read_hardware(tmp_path)
    assert hardware.cores >= 1
    assert (hardware.memory, hardware.busy) == (0, 0.0)
