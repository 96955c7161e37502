"""docs/how-to/gateway.md as a person follows it: its file, its tools, its key, and the clients that it shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.gateway_process import gateway_process
from lab.servers import MODEL

pytestmark = pytest.mark.live
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "gateway.md").read_text(encoding="utf-8")
TOOLS, OPENAI, ANTHROPIC, APPROVING = re.findall(r"^```python live\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PREPARING, LISTING = re.findall(r"^```sh live\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
(FILE,) = re.findall(r"^```toml live\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PRINTED = "http://127.0.0.1:8000"


@dataclass(frozen=True, slots=True)
class House:
    folder: Path
    url: str
    key: str
    prepared: str

    def ran(self, python: Path | str, program: str) -> str:
        command = [str(python), "-c", program.replace(PRINTED, self.url)]
        return self._out(command)

    def shell(self, script: str) -> str:
        return self._out(["bash", "-ec", script.replace(PRINTED, self.url)])

    def _out(self, command: list[str]) -> str:
        environment = {**os.environ, "FERRULE_KEY": self.key}
        ran = subprocess.run(command, env=environment, cwd=self.folder, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout


def client(name: str) -> Path:
    return ROOT / ".cache" / "venvs" / f"client-{name}" / "bin" / "python"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Generator[House]:
    folder = tmp_path_factory.mktemp("gateway")
    (folder / "ferrule.toml").write_text(FILE, encoding="utf-8")
    (folder / "tools.py").write_text(TOOLS, encoding="utf-8")
    (folder / "SmolLM2-135M-Instruct.Q4_1.gguf").symlink_to(Path(MODEL).resolve())
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-ec", PREPARING],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    (key,) = re.findall(r"^(fk_\S+)$", ran.stderr, re.MULTILINE)
    # So that a model as small as this calls at all.
    forced = {"FERRULE_SERVER_TOOL_CHOICE_POLICY": "required_first_hop"}
    with gateway_process(engine=None, environment=forced, prefix=["env", "-C", str(folder)]) as gateway:
        yield House(folder, gateway.url, key, ran.stdout)


def test_the_check_tells_what_is_served(house: House) -> None:
    rows = [line.split("\t")[:3] for line in house.prepared.splitlines()]
    assert ["model", "smol", "here"] in rows
    assert ["key", "alice", "tenant local; models *; tools *; approve"] in rows
    assert house.prepared.endswith("ok\n")


def test_the_shell_line_lists_the_model(house: House) -> None:
    assert '"id": "smol"' in house.shell(LISTING)


def test_openais_client_gets_a_call_with_its_receipt(house: House) -> None:
    printed = house.ran(client("openai"), OPENAI)
    assert 'get_weather {"city": ' in printed
    assert "guaranteed by grammar" in printed


def test_anthropics_client_gets_a_call(house: House) -> None:
    assert "get_weather {'city': " in house.ran(client("anthropic"), ANTHROPIC)


def test_what_changes_the_world_waits_for_leave_and_then_happens(house: House) -> None:
    printed = house.ran(sys.executable, APPROVING)
    assert "Waiting for approval of order" in printed
    assert 'would do: {"item":' in printed
    assert "'name': 'order', 'is_error': False" in printed


def test_without_the_key_nobody_comes_in(house: House) -> None:
    with pytest.raises(AssertionError, match="401"):
        House(house.folder, house.url, "fk_wrong", "").shell(LISTING.replace("--silent", "--silent --show-error"))
