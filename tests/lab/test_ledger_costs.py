"""The ledger's measurements: what they count, and verdicts that must not call a miss a success."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from ferrule.run.ledger.address import open_ledger
from lab.growth_plot import Panel, decades, plot
from lab.ledger_content import LISTS, fill, is_under_way, is_waiting, list_once, rare_conversations, script_of
from lab.ledger_costs import BEFORE
from lab.ledger_gateway import percentile
from lab.ledger_growth import fingerprint, smallest
from lab.ledger_proxy import SOCKET, Frames, counting_proxy
from lab.ledger_script import TENANT, ScriptedEngine, history, open_conversation
from lab.ledger_server import Counts, cpu_since
from lab.ledger_tables import Goal, goals, growth_picture, length_picture, number, tables
from lab.ledger_turns import middle, per_turn
from lab.paths import ROOT

FIGURES: dict[str, Any] = json.loads(BEFORE.read_text(encoding="utf-8"))["parts"]


@pytest.mark.parametrize("size", range(1, 12))
def test_the_frames_of_a_stream_are_the_same_however_it_is_cut(size: int) -> None:
    frames = b"".join(kind + (len(body) + 4).to_bytes(4, "big") + body for kind, body in [(b"T", b"xy"), (b"Z", b"I")])
    stream, reader = frames * 3, Frames(has_startup=False)
    assert b"".join(reader.feed(stream[at : at + size]) for at in range(0, len(stream), size)) == b"TZ" * 3


def test_the_first_message_of_a_client_has_no_type() -> None:
    startup = (12).to_bytes(4, "big") + b"startup!"
    assert Frames(has_startup=True).feed(startup + b"Q" + (5).to_bytes(4, "big") + b"x") == b" Q"


def test_a_round_trip_is_the_client_speaking_after_the_server(tmp_path: Path) -> None:
    server, relay = tmp_path / "server", tmp_path / "relay"
    server.mkdir()
    relay.mkdir()
    ready = b"Z" + (5).to_bytes(4, "big") + b"I"
    with socket.socket(socket.AF_UNIX) as listener, counting_proxy(server, relay) as trips:
        listener.bind(str(server / SOCKET))
        listener.listen()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(relay / SOCKET))
            accepted, _ = listener.accept()
            with accepted:
                for _ in range(3):
                    # Two writes that wait for no answer are one round trip.
                    for text in (b"one", b"two"):
                        client.sendall(text)
                        assert accepted.recv(10) == text
                    accepted.sendall(ready)
                    assert client.recv(10) == ready
    assert (trips.count, trips.synchronisations) == (3, 3)


def test_counts_are_differences() -> None:
    assert Counts(9, 7, 50, 4000).since(Counts(4, 3, 10, 1000)) == Counts(5, 4, 40, 3000)
    assert per_turn({"statements": 30}, {"statements": 130}, 10) == {"statements": 10.0}


def test_a_process_that_began_meanwhile_counts_whole() -> None:
    assert cpu_since({1: 3_000_000_000, 2: 500_000_000}, {1: 1_000_000_000, 7: 9}) == 2.5


def test_figures_of_rounds_are_joined() -> None:
    assert smallest([{"cpu": 3.0, "seconds": 1.0}, {"cpu": 2.0, "seconds": 4.0}]) == {"cpu": 2.0, "seconds": 1.0}
    assert middle([{"bare": {"rate": rate}} for rate in (1.0, 9.0, 2.0)]) == {"bare": {"rate": 2.0}}
    assert percentile(range(100), 0.95) == 95


@pytest.mark.parametrize(
    "target, value, is_floor, verdict",
    [
        (2.0, 2.0, False, "2 (met)"),
        (2.0, 2.1, False, "2.1 (missed)"),
        (0.4, 0.39, True, "0.39 (missed)"),
        (0.4, 0.5, True, "0.5 (met)"),
        (2.0, None, False, "-"),
    ],
)
def test_a_goal_is_met_or_missed(target: float, value: float | None, is_floor: bool, verdict: str) -> None:
    assert Goal("", target, value, is_floor).verdict == verdict


def test_numbers_have_three_digits_that_count() -> None:
    assert [number(value) for value in (0, 0.01234, 1.5, 99.94, 1234.5)] == ["0", "0.0123", "1.5", "99.9", "1,234"]


def test_every_goal_has_a_name_of_its_own_and_what_was_not_measured_is_not_met() -> None:
    names = [goal.name for goal in goals(FIGURES)]
    assert len(set(names)) == len(names)
    assert not any(goal.is_met for goal in goals({}))
    assert tables({"after": {}}) == []


def test_the_kept_figures_have_a_row_for_each_version() -> None:
    made = tables({"before": FIGURES, "after": FIGURES})
    assert {table.title for table in made} == {table.title for table in tables({"before": FIGURES})}
    for table in made:
        assert {len(row) for row in table.rows} == {len(table.columns)}
        assert len(table.rows) == len({tuple(row[:3]) for row in table.rows}), table.title


def test_a_part_that_one_version_lacks_is_left_out_of_its_rows() -> None:
    for part, figures in FIGURES.items():
        assert tables({"before": FIGURES, "after": {part: figures}})


def test_the_pictures_are_well_formed_and_name_every_cost() -> None:
    for draw in (growth_picture, length_picture):
        assert draw({"before": {}}) is None
    drawn = length_picture({"before": FIGURES, "after": FIGURES})
    assert drawn is not None
    assert ElementTree.fromstring(drawn).tag.endswith("svg")
    two = plot("t", "messages", "ms", [Panel("a < b", {"before": [(10, 0.5), (1000, 20)]}, goal=5)])
    assert "a &lt; b" in two
    assert "goal" in two


def test_a_scale_has_at_least_one_decade_around_its_values() -> None:
    assert decades([3.0, 4.0]) == (0, 1)
    assert decades([10.0, 10.0]) == (1, 2)
    assert decades([0.5, 2000.0]) == (-1, 4)


def test_another_ledger_has_another_fingerprint(tmp_path: Path) -> None:
    folder = tmp_path / "src" / "ferrule" / "run"
    folder.mkdir(parents=True)
    (folder / "ledger.py").write_text("one")
    first = fingerprint(tmp_path)
    (folder / "ledger.py").write_text("two")
    assert len({first, fingerprint(tmp_path), fingerprint(ROOT)}) == 3


def test_histories_are_the_same_each_time() -> None:
    assert history(5) == history(5)
    assert len({message.content for message in history(50)}) == 50


@pytest.mark.parametrize(
    "script, tools, effects", [("answer", 0, 0), ("look 1", 1, 0), ("pay 3", 3, 3), ("rounds 5", 5, 5)]
)
def test_a_turn_does_what_its_message_says(script: str, tools: int, effects: int, tmp_path: Path) -> None:
    async def scenario() -> tuple[int, int, str]:
        async with await open_ledger(str(tmp_path / "ledger.db")) as ledger:
            conversation = await open_conversation(ledger, "c", ScriptedEngine())
            turn = await conversation.send_message(script)
            results = [result for message in conversation.messages for result in message.results]
            calls = await ledger.calls("c")
            await conversation.close()
            return len(results), sum(call.side_effects for call in calls), turn.state.value

    assert asyncio.run(scenario()) == (tools, effects, "done")


def test_a_filled_ledger_has_what_its_lists_are_measured_on(tmp_path: Path) -> None:
    async def scenario() -> dict[str, int]:
        async with await open_ledger(str(tmp_path / "ledger.db")) as ledger:
            await fill(ledger, ScriptedEngine(), 0, 200, 4)
            assert await rare_conversations(ledger, TENANT) == ["conversation-1"]
            assert await ledger.verify() is None
            return {name: len(await list_once(ledger, name, TENANT)) for name in LISTS}

    waiting = sum(is_waiting(at) and not is_under_way(at) for at in range(200))
    rows = asyncio.run(scenario())
    assert rows == {
        "sweep": 0,
        "page of approvals": min(50, waiting + 1),
        "page of conversations": 50,
        "page of traces": 50,
        "search, a rare word": 1,
        "search, no match": 0,
    }
    assert len({script_of(at) for at in range(200)}) == 200
