"""OpenAI's own client, unmodified, against `ferrule serve` on a real model, over both of its APIs.

Once in each way; `scripts/long gateway-clients` does it twenty times.
"""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from lab.client_runs import CHAT, RESPONSES, ClientRun
from lab.clients.task import BOOK, SCHEMAS
from lab.gateway_clients import ClientBench
from live.gateway_refusing import REMOTE, Refusing

pytestmark = pytest.mark.live

STREAMED = "live_openai.chat_chunks"


@pytest.mark.parametrize("way", [*CHAT, *RESPONSES], ids=lambda way: way.op.partition(".")[2])
def test_every_call_fits_and_every_answer_is_read_again_strictly(stage: ClientBench, way: ClientRun) -> None:
    judged = stage.run(way)
    assert judged.faults == ()
    assert judged.calls >= 1
    assert bool(judged.events) is way.is_streamed


def test_parsed_arguments_and_answers_are_values_of_the_programs_own_type(stage: ClientBench) -> None:
    tool = stage.ask("openai", "live_openai.chat_parse_tool")
    assert (tool["error"], {*tool["parsed"]}) == (None, {"book_table"})
    answer = stage.ask("openai", "live_openai.chat_parse_answer")
    assert (answer["error"], answer["parsed"]) == (None, ["book_table"])
    validator: Any = jsonschema.Draft202012Validator(SCHEMAS[BOOK])
    assert validator.is_valid(json.loads(answer["text"]))


def test_the_models_are_listed(refused: Refusing) -> None:
    assert refused.told("openai", "live_openai.models")["models"] == ["words", "broken"]


@pytest.mark.parametrize("op", ["live_openai.chat_create", "live_openai.chat_chunks", "live_openai.response_create"])
def test_refusals_are_the_clients_own_exceptions(refused: Refusing, op: str) -> None:
    assert refused.error("openai", op, key="fk_wrong").startswith("AuthenticationError: Error code: 401")
    assert refused.error("openai", op, model="nobody").startswith("NotFoundError: Error code: 404")
    bad = [{"type": "function", "name": "x", "parameters": REMOTE, "function": {"name": "x", "parameters": REMOTE}}]
    assert refused.error("openai", op, more={"tools": bad}).startswith("BadRequestError: Error code: 400")


def test_a_stream_of_chunks_that_breaks_off_raises_and_what_came_before_is_well_formed(refused: Refusing) -> None:
    refused.judged()
    error = refused.error("openai", STREAMED, model="broken", more={"tool_choice": "auto"})
    assert error.startswith("APIError: ")
    assert "connection lost" in error
    judged = refused.judged()
    assert (judged.streams, judged.faults) == (1, ())


def test_a_response_that_breaks_off_is_said_to_have_failed(refused: Refusing) -> None:
    refused.judged()
    told = refused.told("openai", "live_openai.response_events", model="broken", more={"tool_choice": "auto"})
    assert (told["error"], told["finish"]) == (None, "response.failed")
    judged = refused.judged()
    assert (judged.streams, judged.faults) == (1, ())
