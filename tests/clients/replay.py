"""Send the recorded requests of agent clients to a gateway in the same process, and say what became of each.

The fixtures are made by `scripts/long client-fixtures`. The page `docs/reference/clients.md` is what this module finds.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lab.client_fixtures import expand
from lab.pages.markdown import code, table
from server.client import ClientResponse, gateway_of, scripted_engine

FOLDER = Path(__file__).parent
TEXT = "All is well."
CLIENTS = sorted(path.stem for path in FOLDER.glob("*.json"))

_HEAD = """---
hide:
  - toc
---

# Clients

Generated from recorded requests by `scripts/docs --pages`; a test checks that it is current.

Requests of agent clients were recorded with their default tools, each against an upstream that made them call a tool.
Their shapes are in `tests/clients`, with texts of our own. A test sends each of them to the gateway with a scripted
engine. *Taken*: the answer is whole and valid in the client's API. *Refused*: the request gets the error beside it.
*Reported* are the fields that the request has and nobody carries out, as the header `ferrule-ignored` names them.

"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one request. `refusal` is empty if it was taken."""

    client: str
    case: str
    path: str
    status: int
    refusal: str = ""
    ignored: str = ""

    @property
    def is_taken(self) -> bool:
        return not self.refusal


@cache
def outcomes(client: str) -> tuple[Outcome, ...]:
    """Replay all requests of a client, each on a gateway that has seen no other."""
    fixture = json.loads((FOLDER / f"{client}.json").read_text(encoding="utf-8"))
    return tuple(asyncio.run(_replay(client, request)) for request in expand(fixture))


def all_outcomes() -> Iterator[Outcome]:
    for client in CLIENTS:
        yield from outcomes(client)


async def _replay(client: str, request: dict[str, Any]) -> Outcome:
    async with gateway_of(scripted_engine(TEXT)) as gateway:
        answer = await gateway.post(request["path"], request["body"])
    refusal = "" if answer.status == 200 else f"{answer.status} {answer.json()['error']['message']}"
    if not refusal:
        check_answer(request["path"].partition("?")[0], bool(request["body"].get("stream")), answer)
    ignored = answer.headers.get("ferrule-ignored", "")
    return Outcome(client, request["case"], request["path"], answer.status, refusal, ignored)


def check_answer(path: str, is_stream: bool, answer: ClientResponse) -> None:
    """Raise unless the answer is whole, valid in its API, and has the text that the engine wrote."""
    match path, is_stream:
        case "/v1/chat/completions", True:
            choices = [choice for event in answer.events() for choice in event["choices"]]
            text = "".join(choice["delta"].get("content") or "" for choice in choices)
            end = choices[-1]["finish_reason"]
            assert answer.body.endswith(b"data: [DONE]\n\n")
        case "/v1/chat/completions", False:
            choice = answer.json()["choices"][0]
            text, end = choice["message"]["content"], choice["finish_reason"]
        case "/v1/messages", True:
            events = answer.events()
            text = "".join(event["delta"]["text"] for event in events if event["type"] == "content_block_delta")
            ends = [event["delta"]["stop_reason"] for event in events if event["type"] == "message_delta"]
            assert events[-1]["type"] == "message_stop"
            end = {"end_turn": "stop"}[ends[0]]
        case "/v1/messages", False:
            text, end = answer.json()["content"][0]["text"], {"end_turn": "stop"}[answer.json()["stop_reason"]]
        case _:
            response = answer.events()[-1]["response"] if is_stream else answer.json()
            text = response["output"][0]["content"][0]["text"]
            end = {"completed": "stop"}[response["status"]]
    assert (text, end) == (TEXT, "stop"), answer.body


def row_of(outcome: Outcome) -> tuple[str, str, str, str]:
    """What the page says about a request, besides its case."""
    ignored = ", ".join(code(name) for name in outcome.ignored.split(", ") if name)
    return (outcome.client, code(outcome.path), f"refused: {outcome.refusal}" if outcome.refusal else "taken", ignored)


def clients_page() -> str:
    """The page with what became of every request."""
    cases: dict[tuple[str, str, str, str], list[str]] = {}
    for one in all_outcomes():
        cases.setdefault(row_of(one), []).append(one.case)
    rows = [(client, ", ".join(names), *rest) for (client, *rest), names in cases.items()]
    taken, total = sum(one.is_taken for one in all_outcomes()), sum(map(len, cases.values()))
    summary = f"{taken} of {total} requests are taken.\n\n"
    return _HEAD + summary + table(("Client", "Requests", "Path", "Outcome", "Reported"), rows)
