from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import FinishReason, Reply, ToolCall
from ferrule.bench.bfcl.answers import Answer, AnswerFolder, AnswersInvalidError
from ferrule.core.call import FunctionCall

SETTINGS = {"engine": "fake:x"}
calls = st.builds(FunctionCall, st.text(max_size=5), st.text(max_size=9))
answers = st.builds(
    Answer, st.text(max_size=6), st.lists(calls, max_size=2).map(tuple), st.booleans(), st.integers(0, 9)
)


@given(answer=answers)
def test_an_answer_comes_back_as_it_was_kept(answer: Answer) -> None:
    assert answer.line().count("\n") == 1
    assert Answer.read(answer.line()) == answer


@given(saved=st.lists(answers, min_size=1, max_size=3, unique_by=lambda one: one.id), share=st.floats(0, 1))
def test_wherever_a_run_was_stopped_the_finished_lines_are_there_and_the_next_begins_anew(
    saved: list[Answer], share: float
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = AnswerFolder(Path(name), SETTINGS)
        for answer in saved:
            folder.save("parallel", answer)
        path = Path(name) / "parallel.jsonl"
        cut = path.read_bytes()[: int(share * path.stat().st_size)]
        path.write_bytes(cut)
        whole = {one.id: one for one in saved[: cut.count(b"\n")]}
        assert folder.load("parallel") == whole
        late = Answer("asked again")
        folder.save("parallel", late)
        assert folder.load("parallel") == {**whole, late.id: late}


def test_a_reply_is_kept_as_its_calls_and_how_it_ended() -> None:
    whole, half = ToolCall.of("get", '{"a": 1.0}'), ToolCall("", FunctionCall("get", "{"), complete=False)
    reply = Reply((whole, half), finish=FinishReason.LENGTH)
    assert Answer.of("q", reply) == Answer("q", (FunctionCall("get", '{"a": 1.0}'),), True, 1)


def test_answers_of_another_engine_are_not_mixed_in(tmp_path: Path) -> None:
    AnswerFolder(tmp_path, SETTINGS)
    AnswerFolder(tmp_path, SETTINGS)
    with pytest.raises(AnswersInvalidError, match="a run with other settings"):
        AnswerFolder(tmp_path, {"engine": "fake:y"})


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    folder = AnswerFolder(tmp_path, SETTINGS)
    folder.save("parallel", Answer("q"))
    with (tmp_path / "parallel.jsonl").open("a") as file:
        file.write('{"id": 1}\n')
    with pytest.raises(AnswersInvalidError, match="line 2 of"):
        folder.load("parallel")
