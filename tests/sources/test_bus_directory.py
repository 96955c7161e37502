from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ferrule.sources.bus.directory import LOOK_SECONDS, MISSED_LOOKS, ServedTool, WorkerDirectory, list_hash
from ferrule.sources.bus.subject import Capability

SAY: ServedTool = (Capability.read("echo.say"), "a1")
SLEEP: ServedTool = (Capability.read("echo.sleep"), "b2")


def look(directory: WorkerDirectory, now: float, **workers: list[ServedTool]) -> None:
    directory.begin_look()
    directory.end_look({id: (directory.learn_list(tools), 1) for id, tools in workers.items()}, now)


def known(directory: WorkerDirectory) -> set[str]:
    return {worker.id for worker in directory.workers}


def test_a_worker_stays_until_it_has_missed_several_looks_in_a_row() -> None:
    directory = WorkerDirectory()
    look(directory, 0, ann=[SAY], bob=[SAY, SLEEP])
    for missed in range(1, MISSED_LOOKS):
        look(directory, missed * LOOK_SECONDS, ann=[SAY])
        assert known(directory) == {"ann", "bob"}
        assert set(directory.served()) == {SAY, SLEEP}
    look(directory, MISSED_LOOKS * LOOK_SECONDS, ann=[SAY])
    assert known(directory) == {"ann"}
    assert directory.served() == [SAY]


def test_an_answer_in_between_begins_the_count_again() -> None:
    directory = WorkerDirectory()
    look(directory, 0, ann=[SAY])
    for number in range(1, 20):
        if number % MISSED_LOOKS:
            look(directory, number * LOOK_SECONDS)
        else:
            look(directory, number * LOOK_SECONDS, ann=[SAY])
        assert known(directory) == {"ann"}


@given(st.lists(st.floats(0, LOOK_SECONDS * (MISSED_LOOKS - 1), exclude_max=True), max_size=40).map(sorted))
def test_looks_that_follow_closely_do_not_make_a_pause_longer(moments: list[float]) -> None:
    directory = WorkerDirectory()
    look(directory, -1, ann=[SAY])
    for now in moments:
        look(directory, now)
    assert known(directory) == {"ann"}


def test_a_goodbye_is_believed_at_once_and_until_the_worker_answers_a_later_look() -> None:
    directory = WorkerDirectory()
    look(directory, 0, ann=[SAY])
    directory.begin_look()
    directory.depart("ann")
    assert known(directory) == set()
    # Its answer was on its way when it said goodbye.
    directory.end_look({"ann": (directory.learn_list([SAY]), 1)}, 1)
    assert known(directory) == set()
    # Somebody else said goodbye for it: it is there, and answers.
    look(directory, 2, ann=[SAY])
    assert known(directory) == {"ann"}


def test_what_a_worker_serves_now_replaces_what_it_served() -> None:
    directory = WorkerDirectory()
    look(directory, 0, ann=[SAY])
    look(directory, 1, ann=[SLEEP])
    assert directory.served() == [SLEEP]
    assert directory.knows_list(list_hash([SLEEP]))
    assert not directory.knows_list(list_hash([SAY]))


@given(st.permutations([SAY, SLEEP, (Capability.read("echo.say@2.1"), "c3")]))
def test_workers_that_serve_the_same_have_the_same_hash(tools: list[ServedTool]) -> None:
    assert list_hash(tools) == list_hash(sorted(tools))
    assert list_hash(tools) != list_hash(tools[1:])


def test_a_capability_is_called_by_id_only_if_all_its_workers_can_be() -> None:
    directory = WorkerDirectory()
    directory.begin_look()
    both, one = directory.learn_list([SAY, SLEEP]), directory.learn_list([SAY])
    directory.end_look({"ann": (both, 4), "bob": (one, 4), "old": (one, 0)}, 0)
    assert [worker.id for worker in directory.workers_of(SLEEP[0])] == ["ann"]
    assert directory.workers_of(SAY[0]) == ()
    directory.depart("old")
    assert {worker.id for worker in directory.workers_of(SAY[0])} == {"ann", "bob"}
    directory.mark_unreachable(directory.workers_of(SLEEP[0])[0])
    assert directory.workers_of(SLEEP[0]) == ()
    assert [worker.id for worker in directory.workers_of(SAY[0])] == ["bob"]
    directory.begin_look()
    directory.end_look({"ann": (both, 4)}, 1)
    assert {worker.id for worker in directory.workers_of(SAY[0])} == {"ann", "bob"}


def test_a_worker_of_an_older_minor_version_is_not_asked_for_a_newer_one() -> None:
    directory = WorkerDirectory()
    directory.begin_look()
    lists = {id: directory.learn_list([(Capability.read(f"echo.say@1.{id}"), id)]) for id in "123"}
    directory.end_look({id: (hash, 1) for id, hash in lists.items()}, 0)
    for minor in range(5):
        ids = {worker.id for worker in directory.workers_of(Capability("echo", "say", 1, minor))}
        assert ids == {id for id in "123" if int(id) >= minor}
    assert directory.workers_of(Capability("echo", "say", 2, 0)) == ()
