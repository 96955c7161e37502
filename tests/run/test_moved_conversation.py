"""A saved conversation continues in another process, which has nothing of the first one but the saved text."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ferrule import ToolConversation
from run.moved_conversation import TOOLS, AttentiveModel, take_step

SCRIPT = Path(__file__).with_name("moved_conversation.py")
SRC = Path(__file__).parents[2] / "src"

# What is easily changed by a codec, a locale or a float on the way.
HARD: list[Any] = [
    'a "quoted" back\\slash\nline\ttab \x00 \x7f',
    "𝕒𝄞😀 e\u0301 é שלום مرحبا \u202e\u2028\u2029\ufeff",
    "",
    " ",
    {"": [], "a": {}, "nested": [[[None, True, False]], {"deep": {"deeper": [""]}}]},
    [10**30, -(10**30), 1e308, 5e-324, -0.0, 0.1, 9007199254740993],
    "<tool_call></s><|im_end|>```json\n{}```",
    "12",
    "null",
]


class Relay:
    """Every step in a process of its own. Between two of them there is only a text."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.folder, self.saved, self.written = kind, folder, "", ""

    def step(self, step: dict[str, Any]) -> dict[str, Any]:
        # A locale without Unicode, another folder and another hash seed: what is not in the text is not there.
        environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        environment |= {"PYTHONPATH": str(SRC), "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        done = subprocess.run(
            [sys.executable, "-W", "error", str(SCRIPT), self.kind, json.dumps(step)],
            input=self.saved.encode(),
            capture_output=True,
            check=False,
            cwd=self.folder,
            env=environment,
        )
        assert done.returncode == 0, done.stderr.decode()
        answer = json.loads(done.stdout)
        self.saved = answer["saved"]
        self.written += done.stderr.decode()
        return answer["seen"]


def at_once(kind: str, steps: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What the same steps give in one conversation that is never saved."""
    talk = ToolConversation(AttentiveModel(), TOOLS[kind], system="Be brief.", decide=lambda call: True)
    return [take_step(talk, step) for step in steps], json.loads(json.dumps(talk.save()))


def calls(*calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {"say": json.dumps(calls, ensure_ascii=False)}


ECHOES = calls(*[("echo", {"value": value}) for value in HARD])
STEPS: dict[str, list[dict[str, Any]]] = {
    "runs": [{"say": "שלום 😀 \\"}, ECHOES, {"say": "and?"}, ECHOES, {"say": "What did I say?"}],
    "hands out": [{"say": "𝕒"}, ECHOES, {"results": HARD}, {"say": "and?"}, ECHOES, {"results": HARD[::-1]}],
}
RESULTS = {"runs": [{"echoed": value} for value in HARD] * 2, "hands out": [*HARD, *HARD[::-1]]}


@pytest.mark.parametrize("kind", STEPS)
def test_a_process_for_every_step_gives_what_one_process_gives(kind: str, tmp_path: Path) -> None:
    relay = Relay(kind, tmp_path)
    seen = [relay.step(step) for step in STEPS[kind]]
    expected, saved = at_once(kind, STEPS[kind])
    assert seen == expected
    assert json.loads(relay.saved) == saved
    assert list(tmp_path.iterdir()) == []
    read = json.loads(seen[-1]["text"])
    results = [part["content"] for message in read if message["role"] == "tool" for part in message["parts"]]
    assert results == RESULTS[kind], "the model in the last process did not read every result as it was"


def test_a_turn_that_waits_for_approval_is_approved_in_another_process_and_runs_once(tmp_path: Path) -> None:
    relay = Relay("runs", tmp_path)
    both = calls(("echo", {"value": "é"}), ("post", {"text": "hi"}))
    first = relay.step(both)
    assert (first["state"], first["unfinished"], relay.written) == ("waiting", True, "")
    # A process that loads it without deciding changes nothing.
    for _ in range(2):
        assert relay.step({"look": True})["state"] == "waiting"
    assert relay.written == ""
    done = relay.step({"approve": True})
    assert (done["state"], done["unfinished"], relay.written) == ("done", False, "posted 'hi'\n")
    (expected,), saved = at_once("runs", [both])
    assert done == expected
    assert json.loads(relay.saved) == saved
    after = relay.step({"say": "and?"})
    assert json.loads(after["text"])[-1]["parts"] == [{"kind": "text", "text": "and?"}]
    assert relay.written == "posted 'hi'\n"
