"""Draw the states of the tool loop, `docs/images/machine.svg`, from the transition table in the code."""

from __future__ import annotations

from collections.abc import Iterator

from ferrule.run.machine import FINAL_STATES, TRANSITIONS, State, Trigger
from lab.pages.svg import Box, arrow, picture, rectangle, words

_WIDTH, _HEIGHT = 1120, 540
_ABOUT = "The states of the tool loop and the transitions between them; the table in the text says the same."
# Only the positions are chosen here; everything else in the picture comes from the transition table.
_PLACES = {
    State.READY: (100, 150),
    State.ASKING: (290, 150),
    State.RUNNING: (500, 280),
    State.WAITING: (500, 430),
    State.CLOSING: (765, 150),
    State.DONE: (1040, 150),
    State.STOPPED: (1040, 430),
}
# How far a curve bends to the left, where a straight line would cross another.
_SWINGS = {
    (State.ASKING, State.DONE): 118,
    (State.ASKING, State.WAITING): -95,
    (State.WAITING, State.ASKING): 165,
    (State.WAITING, State.CLOSING): -176,
    (State.RUNNING, State.ASKING): 22,
    (State.ASKING, State.RUNNING): 22,
    (State.RUNNING, State.WAITING): 44,
    (State.WAITING, State.RUNNING): 44,
}
# On which side a state's arrow to itself is drawn: across and down.
_LOOPS = {State.ASKING: (0, -1), State.RUNNING: (1, 0), State.WAITING: (0, 1)}


def machine_picture() -> str:
    boxes = {state: Box(*_PLACES[state], 116, 46) for state in State}
    frame = Box(440, 286, 850, 468)
    parts = [rectangle(frame, "frame", 14)]
    parts += (one for edge, label in _edges().items() for one in _draw(*edge, label, boxes))
    parts += _cancel_arrow(boxes, frame)
    for state, box in boxes.items():
        parts += [
            rectangle(box, "end" if state in FINAL_STATES else "box"),
            words(state.value, box.x, box.y + 5, "name"),
        ]
    return picture("The states of the loop", _ABOUT, _WIDTH, _HEIGHT, parts)


def _edges() -> dict[tuple[State, State], str]:
    """Each transition once, with all its causes. Cancelling is drawn separately, because it starts from every state."""
    ways: dict[tuple[State, State], list[str]] = {}
    for (state, happening), targets in TRANSITIONS.items():
        for target in targets if happening is not Trigger.CANCELLED else ():
            ways.setdefault((state, target), []).append(happening.value)
    return {way: ", ".join(labels) for way, labels in ways.items()}


def _draw(start: State, end: State, label: str, boxes: dict[State, Box]) -> Iterator[str]:
    here, there = boxes[start], boxes[end]
    if start is end:
        yield from _to_itself(here, _LOOPS[start], label)
        return
    across, down = there.x - here.x, there.y - here.y
    length = (across**2 + down**2) ** 0.5
    swing = 2 * _SWINGS.get((start, end), 0)
    pull = (here.x + across / 2 + down / length * swing, here.y + down / 2 - across / length * swing)
    yield arrow(here.edge(*pull), pull, there.edge(*pull))
    # The top of the curve is half way between the straight line and the control point.
    x, y = (here.x + there.x) / 4 + pull[0] / 2, (here.y + there.y) / 4 + pull[1] / 2
    yield words(label, x, y + 4, "label")


def _to_itself(box: Box, side: tuple[int, int], label: str) -> Iterator[str]:
    across, down = side
    x, y = box.x + across * box.width / 2, box.y + down * box.height / 2
    out, apart = 52, 15
    ends = ((x - down * apart, y - across * apart), (x + down * apart, y + across * apart))
    pulls = [(px + across * out - down * 12, py + down * out - across * 12) for px, py in ends[:1]]
    pulls += [(px + across * out + down * 12, py + down * out + across * 12) for px, py in ends[1:]]
    yield arrow(ends[0], pulls[0], pulls[1], ends[1])
    beside = "start" if across else "middle"
    yield words(label, x + across * (out - 4), y + down * (out + 2) + 4, "label", beside)


def _cancel_arrow(boxes: dict[State, Box], frame: Box) -> Iterator[str]:
    """One arrow from the frame around all states that can be cancelled."""
    inside = {state for (state, happening) in TRANSITIONS if happening is Trigger.CANCELLED}
    assert inside == set(State) - set(FINAL_STATES), (
        "the frame holds the states that are not over: draw the others apart"
    )
    stopped = boxes[State.STOPPED]
    edge = frame.left + frame.width
    yield arrow((edge, stopped.y), (stopped.left, stopped.y))
    yield words(Trigger.CANCELLED.value, (edge + stopped.left) / 2, stopped.y - 10, "label")
