from __future__ import annotations

from pathlib import Path

import pytest

from cli.command_line import run


def test_a_worker_without_anything_to_serve_says_so() -> None:
    ran = run("worker")
    assert ran.code == 1
    assert "nothing to serve" in ran.err
    assert "hint:" in ran.err


@pytest.mark.parametrize("options", [("--cap", "0"), ("--key-file", "nowhere.key")])
def test_what_a_worker_cannot_use_is_refused_before_it_connects(tmp_path: Path, options: tuple[str, str]) -> None:
    tools = tmp_path / "some_tools.py"
    tools.write_text("def ping() -> str:\n    return 'pong'\n", encoding="utf-8")
    assert run("worker", f"{tools}:ping", *options).code == 1


def test_a_short_key_is_refused(tmp_path: Path) -> None:
    tools, key = tmp_path / "more_tools.py", tmp_path / "bus.key"
    tools.write_text("def ping() -> str:\n    return 'pong'\n", encoding="utf-8")
    key.write_text("short\n", encoding="utf-8")
    ran = run("worker", f"{tools}:ping", "--key-file", str(key))
    assert ran.code == 1
    assert "at least 16 bytes" in ran.err


def test_a_label_without_a_name_is_wrong_usage() -> None:
    assert run("worker", "--relay", "--label", "kitchen").code == 2


def test_the_two_kinds_of_relay_exclude_each_other() -> None:
    assert run("worker", "--relay", "--relay-effects").code == 2
