"""The tool that transcribes a recording."""

from __future__ import annotations

from typing import Any

from ferrule import CallContext, ToolError, tool
from hearth import speech
from hearth.files import content_of
from hearth.recording import Recording


@tool(isolation="process", bound_to=("stt.transcribe", "1.0"))
def transcribe_audio(file: str, context: CallContext) -> dict[str, Any]:
    """Writes down the words that are spoken in a recording. Says also how long and loud it is, and where it is silent.

    Args:
        file: the recording's name
    """
    content = content_of(file)
    endpoint = speech.endpoint()
    if endpoint is None:
        recording = Recording.read(content)
        words = speech.recognise_words(recording, context)
        return {"text": words, "recogniser": "pocketsphinx, English", **recording.measure()}
    words = speech.ask_for_words(endpoint, file, content)
    return {"text": words, "recogniser": endpoint.model, **_measure(content)}


def _measure(content: bytes) -> dict[str, Any]:
    """The measurements of a WAV recording; nothing of another format, which an endpoint may still understand."""
    try:
        return Recording.read(content).measure()
    except ToolError:
        return {}
