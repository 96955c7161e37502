"""The program that `ferrule init --client openai` writes, with the unmodified SDK against the written gateway."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cli.init_folder import ADDRESS, init, reply
from lab.gateway_process import gateway_process
from lab.paths import CACHE
from live.scripted_model import scripted_model

pytestmark = pytest.mark.live
PYTHON = CACHE / "venvs" / "client-openai" / "bin" / "python"


def test_the_written_program_gets_an_answer_from_the_written_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert PYTHON.exists(), "run scripts/setup-clients"
    with scripted_model(reply) as model:
        done = init(tmp_path, "--engine", f"openai:m?url={model.url}", "--client", "openai")
        assert done.returncode == 0, done.stderr
        monkeypatch.chdir(tmp_path)
        with gateway_process(["--config", "ferrule.toml"], engine=None) as gateway:
            program = (tmp_path / "client.py").read_text(encoding="utf-8").replace(ADDRESS, gateway.url)
            ran = subprocess.run([PYTHON, "-c", program], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "They say: There are no notes yet.\n"), ran.stderr
