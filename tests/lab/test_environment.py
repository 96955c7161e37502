from __future__ import annotations

from pathlib import Path

from lab.environment import circumstances, told


def test_only_what_was_fetched_is_told_of(tmp_path: Path) -> None:
    assert "parsers" not in told(circumstances(tmp_path))
    for folder, pins in (("wheels/vllm", "vllm==1"), ("wheels/sglang", "sglang==2"), ("templates", "sdist==3\n")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / ".pins").write_text(pins, encoding="utf-8")
    assert told(circumstances(tmp_path)).endswith("; parsers of vllm==1 and sglang==2; chat templates out of sdist==3.")
