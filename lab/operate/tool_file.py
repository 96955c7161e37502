"""The gateways' tools, as the text of a file that changes during the day, and the effects that `pay` has written."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

FIRST_LIST, SECOND_LIST = 1, 2
_TEXT: Final = '''
import os

from ferrule import tool


@tool
def get_price(item: int) -> str:
    """The price of an item."""
    return f"item {{item}} by list {price_list}"


@tool(side_effects=True)
def pay(number: int) -> str:
    """Pay an invoice."""
    # One write to the end of the file, which the kernel keeps when the process is killed.
    file = os.open({effects!r}, os.O_WRONLY | os.O_APPEND)
    os.write(file, f"{{number}} {{os.getpid()}}\\n".encode())
    os.close(file)
    return f"paid {{number}}"


TOOLS = [get_price, pay]
'''
BROKEN: Final = "raise RuntimeError('this file is being edited')\n"


def tools_text(effects: Path, price_list: int) -> str:
    return _TEXT.format(effects=str(effects), price_list=price_list)


def price_answer(item: int, price_list: int) -> str:
    return f"item {item} by list {price_list}"


def read_effects(effects: Path) -> tuple[Counter[int], set[int]]:
    """How often each number was paid, and the processes that paid."""
    lines = [line.split() for line in effects.read_text(encoding="utf-8").splitlines()]
    return Counter(int(number) for number, _ in lines), {int(process) for _, process in lines}
