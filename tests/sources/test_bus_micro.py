from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats.micro.service import ServiceInfo, ServicePing, ServiceStats

from ferrule.core.text_grammar import TextGrammar
from ferrule.core.tool import ToolDefinition
from ferrule.errors import BusError
from ferrule.sources.bus.micro import (
    BriefInfo,
    Endpoint,
    Identity,
    brief_bytes,
    control_subjects,
    definition_bytes,
    documents,
    is_asked,
    list_request,
    page_ids,
    read_brief,
    read_counts,
    read_definition,
    read_info,
)
from ferrule.sources.bus.subject import Capability

WHO = Identity("id1", "ferrule-local", "0.1.0", {"node": "kitchen"}, 1_700_000_000.0)


keys = st.sampled_from(["type", "endpoints", "metadata", "id", "name"])
documents_of_strangers = st.recursive(
    st.none() | st.text(), lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner)
)


def endpoint(tool: str = "search", requests: int = 0, errors: int = 0) -> Endpoint:
    capability = Capability("corpus", tool)
    definition = ToolDefinition(tool, "x" * 100, bound_capability=capability.name, bound_version=capability.version)
    return Endpoint(capability, capability.subject("local"), definition, definition.fingerprint, requests, errors)


def test_info_tells_each_capability_with_the_hash_of_its_definition_and_no_schema() -> None:
    served = endpoint()
    (document,) = documents("INFO", WHO, [served])
    (result,) = read_info(document)
    assert (result.worker, result.capability, result.subject) == ("id1", served.capability, served.subject)
    assert result.fingerprint == served.definition.fingerprint
    assert result.metadata == {"node": "kitchen"}
    assert b"parameters" not in document
    assert json.loads(document)["type"] == "io.nats.micro.v1.info_response"


def test_a_very_long_list_is_split_into_several_messages_of_moderate_size() -> None:
    many = [endpoint(f"tool_{number}_{'x' * 100}") for number in range(3_000)]
    pages = documents("INFO", WHO, many)
    assert max(map(len, pages)) < 512 * 1024
    assert len({json.loads(page)["id"] for page in pages}) == len(pages)
    assert [result.capability for page in pages for result in read_info(page)] == [one.capability for one in many]


def test_stats_count_and_ping_says_who() -> None:
    (stats,) = documents("STATS", WHO, [endpoint(requests=7, errors=2)])
    assert read_counts(stats) == {"t.local.corpus.search.1": (7, 2)}
    assert json.loads(stats)["started"] == "2023-11-14T22:13:20.000Z"
    (ping,) = documents("PING", WHO, [])
    assert json.loads(ping) == {
        "type": "io.nats.micro.v1.ping_response",
        **{"name": "ferrule-local", "id": "id1", "version": "0.1.0", "metadata": {"node": "kitchen"}},
    }


def test_the_client_librarys_own_readers_understand_what_is_written() -> None:
    served = endpoint(requests=7, errors=2)
    ping, info, stats = (json.loads(documents(verb, WHO, [served])[0]) for verb in ("PING", "INFO", "STATS"))
    assert ServicePing.from_dict(ping).name == "ferrule-local"
    assert ServiceInfo.from_dict(info).endpoints[0].subject == served.subject
    assert ServiceStats.from_dict(stats).endpoints[0].num_requests == 7


def test_a_worker_is_asked_by_everybody_by_name_and_by_id() -> None:
    subjects = control_subjects(WHO)
    assert ("INFO", "$SRV.INFO") in subjects
    assert ("INFO", "$SRV.INFO.ferrule-local") in subjects
    assert ("PING", "$SRV.PING.ferrule-local.id1") in subjects
    assert len(subjects) == 9


@given(st.binary(max_size=60) | documents_of_strangers.map(lambda value: json.dumps(value).encode()))
def test_anything_may_answer_discovery_and_is_read_or_refused(body: bytes) -> None:
    for read in (read_info, read_counts, lambda body: read_definition(body, "x")):
        with pytest.raises(BusError):
            read(body)


def test_an_endpoint_that_is_no_capability_of_ours_is_left_out() -> None:
    document = {
        "type": "io.nats.micro.v1.info_response",
        "id": "other",
        "endpoints": [
            {"name": "x", "subject": "x"},
            {"name": "y", "subject": "y", "metadata": {"capability": "nodot", "def_hash": "1"}},
            {"name": "z", "subject": 4, "metadata": {"capability": "a.b@1.0", "def_hash": "1"}},
            {"name": "w", "subject": "w", "metadata": {"capability": "a.b@1.0"}},
            7,
        ],
    }
    assert read_info(json.dumps(document).encode()) == []


def test_a_definition_is_believed_only_if_it_has_the_hash_that_was_asked_for() -> None:
    tool = endpoint().definition
    assert read_definition(definition_bytes(tool), tool.fingerprint) == tool
    with pytest.raises(BusError):
        read_definition(
            definition_bytes(tool).replace(b'"side_effects": false', b'"side_effects": true'), tool.fingerprint
        )
    with pytest.raises(BusError):
        read_definition(b"{}", tool.fingerprint)


@pytest.mark.parametrize("grammar", [None, TextGrammar("lark", 'start: "a"+')])
def test_a_custom_tool_crosses_the_bus_with_its_grammar(grammar: TextGrammar | None) -> None:
    tool = replace(
        ToolDefinition.custom("patch", "Patches", grammar), bound_capability="files.patch", bound_version="1.0"
    )
    assert read_definition(definition_bytes(tool), tool.fingerprint) == tool
    with pytest.raises(BusError):
        read_definition(definition_bytes(tool).replace(b'"custom"', b'"other"'), tool.fingerprint)
    for damaged in (b'"custom": []', b'"custom": 1', b'"custom": {"syntax": "ebnf"}'):
        body = definition_bytes(replace(tool, input_grammar=None)).replace(b'"custom": {}', damaged)
        with pytest.raises(BusError):
            read_definition(body, tool.fingerprint)


@given(st.integers(0, 3_000))
def test_the_short_answer_to_a_look_says_how_many_messages_the_list_has(endpoints: int) -> None:
    pages = documents("INFO", WHO, [endpoint()] * endpoints)
    info = read_brief(brief_bytes(WHO, "0123456789abcdef", endpoints, 16))
    assert info == BriefInfo("id1", "0123456789abcdef", len(pages), 16)
    assert [json.loads(page)["id"] for page in pages] == page_ids("id1", len(pages))


@pytest.mark.parametrize(
    "body",
    [
        *(
            b"",
            b"[]",
            b"{}",
            b"\xff",
            b"[[[",
            b'["id1"]',
            b'["id1","hash",1]',
            b'["id1","hash",0]',
            b'["id1","hash","1"]',
        ),
        *(
            b'["","hash",1,1]',
            b'["a.b","hash",1,1]',
            b'["*","hash",1,1]',
            b'[">","hash",1,1]',
            b'["a\\r\\nPUB x 0","hash",1,1]',
        ),
        *(b'["a b","hash",1,1]', b'["%b","hash",1,1]' % (b"a" * 65), documents("INFO", WHO, [endpoint()])[0]),
    ],
)
def test_a_short_answer_that_is_none_is_ignored(body: bytes) -> None:
    assert read_brief(body) is None


def test_a_newer_short_answer_may_have_more_entries() -> None:
    assert read_brief(b'["id1","hash",2,8,"something",{}]') == BriefInfo("id1", "hash", 2, 8)


def test_a_list_is_sent_by_the_workers_that_are_named_and_by_all_if_nobody_is() -> None:
    assert is_asked(list_request(["id1", "id2"]), "id2")
    assert not is_asked(list_request(["id1", "id2"]), "id3")
    # What other clients of the protocol may send.
    for body in (b"", b"{}", b"null", b"\xff", b'{"of": "id1"}'):
        assert is_asked(body, "id3")
