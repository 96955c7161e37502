from __future__ import annotations

from pathlib import Path

from lab.environment import describe_environment, measured_environment


def test_only_installed_versions_are_listed(tmp_path: Path) -> None:
    assert "parsers" not in describe_environment(measured_environment(tmp_path))
    for folder, pins in (("wheels/vllm", "vllm==1"), ("wheels/sglang", "sglang==2"), ("templates", "sdist==3\n")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / ".pins").write_text(pins, encoding="utf-8")
    assert describe_environment(measured_environment(tmp_path)).endswith(
        "; parsers of vllm==1 and sglang==2; chat templates from sdist==3."
    )
