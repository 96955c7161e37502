import sys
from pathlib import Path

import pytest

from lab.workers import Worker, WorkerLost

ORACLES = "lab.oracles.worker"


def test_a_failure_is_an_answer_and_the_worker_continues():
    with Worker(Path(sys.executable), ORACLES) as worker:
        for _ in range(2):
            answer = worker.ask({"oracle": "nobody", "op": "render"})
            assert answer["error"].startswith("KeyError")
            assert answer["seconds"] >= 0


def test_a_missing_interpreter_is_reported_with_the_script_to_run():
    with pytest.raises(WorkerLost) as caught:
        Worker(Path("no-such-python"), ORACLES, hint="run scripts/setup-oracles")
    assert caught.value.hint == "run scripts/setup-oracles"


def test_a_worker_that_ends_while_it_is_asked_is_lost():
    with Worker(Path(sys.executable), "lab.no_such_module") as worker, pytest.raises(WorkerLost):
        worker.ask({})
