"""Images, recordings and files as values: how they are made, saved, described and limited."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import ChatMessage, DefinitionError, Media, ToolCallRequest, ToolResult
from ferrule.core.history import readable_request
from ferrule.core.media import name_media, require_sizes, size_text
from ferrule.core.message import messages_as_json, messages_from_json
from ferrule.core.named_media import MEDIA_NAMED, name_unsupported_media
from ferrule.errors import TooLargeError

PIXELS = bytes(range(256)) * 4
PNG = Media("image", "image/png", data=PIXELS, name="shot.png", detail="high")


@given(st.binary(min_size=1, max_size=300))
def test_data_keeps_its_bytes_and_knows_its_size(data: bytes) -> None:
    media = Media("file", data=data)
    assert (media.content, media.size) == (data, len(data))
    assert Media("file", data=media.data) == media


def test_messages_with_media_are_saved_and_restored_without_loss() -> None:
    messages = (
        ChatMessage("user", ["What is this?", PNG, Media("image", url="https://example.com/a.png")]),
        ChatMessage("tool", [ToolResult("c1", "shoot", "the page", media=[PNG])]),
        ChatMessage("user", [Media("file", file_id="file-1", provider="openai", name="a.pdf")]),
    )
    assert messages_from_json(messages_as_json(messages)) == messages


@pytest.mark.parametrize(
    "fields, what",
    [
        ({}, "exactly one"),
        ({"data": b"x", "url": "https://a.b/c"}, "exactly one"),
        ({"data": "not base64!"}, "not base64"),
        ({"data": "AAA"}, "not base64"),
        ({"data": "AAAA\nAAAA"}, "not base64"),
        ({"data": "ÄÄÄÄ"}, "not base64"),
        ({"data": b"x", "name": "n" * 3_000}, "name of a part"),
    ],
)
def test_a_part_that_cannot_be_sent_is_refused(fields: dict[str, object], what: str) -> None:
    with pytest.raises(DefinitionError, match=what):
        Media("image", **fields)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("url", ["file:///etc/passwd", "data:image/png,raw", "ftp://a.b/c", "/etc/passwd", "data:"])
def test_an_address_is_http_or_a_data_url_with_base64(url: str) -> None:
    with pytest.raises(DefinitionError):
        Media.from_data_url("image", url)


def test_a_data_url_becomes_its_data_and_is_written_back_to_the_letter() -> None:
    url = f"data:image/png;base64,{base64.b64encode(PIXELS).decode()}"
    media = Media.from_data_url("image", url)
    assert (media.media_type, media.content, media.address) == ("image/png", PIXELS, url)


def test_the_line_names_the_part_its_type_and_its_size() -> None:
    shot = Media("image", "image/png", data=b"x" * 34_200, name="screenshot.png")
    assert name_media(shot, 1) == "[image 1: screenshot.png, image/png, 34 kB; this model cannot see images]"
    assert (
        name_media(Media("audio", "audio/wav", data=b"x"), 2)
        == "[audio 2: audio/wav, 1 bytes; this model cannot hear audio]"
    )
    assert size_text(12_000_000) == "12 MB"


@given(st.text(max_size=200))
def test_a_hostile_name_stays_inside_one_line(name: str) -> None:
    line = name_media(Media("image", "image/png", data=b"x", name=name), 1)
    assert line.isprintable()
    assert line.count("[") == line.count("]") == 1
    assert len(line) < 300


def test_what_an_engine_does_not_take_is_named_in_its_place_and_counted() -> None:
    request = ToolCallRequest(
        messages=(
            ChatMessage("user", ["Look:", PNG, "What is it?"]),
            ChatMessage("tool", [ToolResult("c1", "shoot", {"page": 1}, media=[PNG])]),
            ChatMessage("tool", [ToolResult("c2", "shoot", "", media=[Media("file", url="https://a.b/c.pdf")])]),
        )
    )
    named, (diagnostic,) = name_unsupported_media(request)
    first, second, third = named.messages
    assert first.content == ("Look:\n[image 1: shot.png, image/png, 1 kB; this model cannot see images]\nWhat is it?")
    assert second.results[0].text == '{"page": 1}\n[image 2: shot.png, image/png, 1 kB; this model cannot see images]'
    assert third.results[0].text == "[file 1: https://a.b/c.pdf; this model cannot open files]"
    assert diagnostic.code == MEDIA_NAMED
    assert "2 images, 1 file" in diagnostic.message
    assert not any(message.media or any(one.media for one in message.results) for message in named.messages)


def test_an_engine_that_takes_everything_gets_the_request_as_it_is() -> None:
    request = ToolCallRequest(messages=(ChatMessage("user", [PNG]),))
    assert name_unsupported_media(request, lambda media: True) == (request, ())
    plain = ToolCallRequest(messages=(ChatMessage.user("hello"),))
    assert name_unsupported_media(plain)[0] is plain


def test_a_name_with_half_of_a_surrogate_pair_is_repaired() -> None:
    damaged = Media("image", data=b"x", name="\ud800.png")
    request = ToolCallRequest(
        messages=(ChatMessage("user", [damaged]), ChatMessage("tool", [ToolResult("c", "f", "", media=[damaged])]))
    )
    repaired, notes = readable_request(request)
    assert repaired.messages[0].media[0].name == repaired.messages[1].results[0].media[0].name == "\ufffd.png"
    assert notes


@pytest.mark.parametrize("limits", [(2, 100, 1000), (9, 2, 1000), (9, 100, 8)])
def test_too_many_or_too_large_parts_are_refused(limits: tuple[int, int, int]) -> None:
    parts = [Media("image", data=b"abc")] * 3
    count, one, total = limits
    with pytest.raises(TooLargeError):
        require_sizes(parts, max_count=count, max_bytes=one, max_total_bytes=total)
    require_sizes(parts, max_count=3, max_bytes=3, max_total_bytes=9)
