"""What is compared between plain vLLM and Ray Serve LLM, and that everything Ray started is ended."""

import subprocess
import sys
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.call import How, Receipt
from lab.distributed import CLAIMS, COMPARISONS, Answer, count_equal, differences
from lab.ray_server import end_session, members_of_session

RECEIPT = Receipt(how=How.GRAMMAR, engine="vllm", path="completion+structural_tag", format="hermes", rule="ab")
OTHER = {
    "how": How.REFUSED,
    "enforced": ("type",),
    "checked": ("type",),
    "unchecked": ("type",),
    "path": "completion",
    "format": "generic_xml",
}
# Two processes in groups of their own, one of which does not listen to SIGTERM, as Ray's workers may.
LEADER = """
import signal, subprocess, sys, time
sleep = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", sleep], process_group=0, stdout=subprocess.PIPE)
child.stdout.readline()
print("up", flush=True)
time.sleep(600)
"""


def answer_with(receipt: Receipt, a: int = 1) -> Answer:
    return Answer((receipt,), (("add", {"a": a}),), 10)


@given(st.lists(st.integers(), min_size=1, max_size=5))
def test_the_same_answers_agree_in_everything(values: list[int]) -> None:
    answers = {str(number): answer_with(RECEIPT, value) for number, value in enumerate(values)}
    assert all(count_equal(answers, answers, what) == len(values) for what in COMPARISONS)
    assert differences(answers, answers) == []


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_receipt_that_claims_something_else_is_named(claim: str) -> None:
    one = {"q": answer_with(RECEIPT)}
    other = {"q": answer_with(replace(RECEIPT, **{claim: OTHER[claim]}))}
    assert count_equal(one, other, claim) == 0
    assert [difference.partition(":")[0] for difference in differences(one, other)] == [f"q, {claim}"]


def test_other_arguments_are_counted_and_are_no_difference_of_receipts() -> None:
    one, other = {"q": answer_with(RECEIPT, 1)}, {"q": answer_with(RECEIPT, 2)}
    assert count_equal(one, other, "calls") == 0
    assert differences(one, other) == []


def test_a_question_that_only_one_way_answered_agrees_in_nothing() -> None:
    assert count_equal({"q": answer_with(RECEIPT)}, {}, "how") == 0


def test_a_process_in_a_group_of_its_own_is_ended_with_its_session() -> None:
    with subprocess.Popen([sys.executable, "-c", LEADER], stdout=subprocess.PIPE, start_new_session=True) as leader:
        assert leader.stdout is not None
        assert leader.stdout.readline() == b"up\n"
        assert len(members_of_session(leader.pid)) == 2
        started = time.monotonic()
        end_session(leader, patience=10)
    assert members_of_session(leader.pid) == []
    assert time.monotonic() - started < 30
