"""The words of a recording: from a transcription endpoint if one is set, otherwise from PocketSphinx in this process.

PocketSphinx and its model of American English come in one wheel. It holds Python's lock while it listens, so a tool
that calls it needs a process of its own.
"""

from __future__ import annotations

from importlib import import_module

from ferrule import CallContext, ToolError
from hearth.endpoint import Endpoint, missing_packages
from hearth.recording import Recording

_VARIABLE = "HEARTH_SPEECH"
_PACKAGE = "pocketsphinx"
_LOWEST_RATE = 16_000
"""In Hz: that of the recordings that the model was trained on. PocketSphinx reads any higher one."""


def missing() -> str | None:
    """What is missing to recognise speech; None if nothing is."""
    return None if endpoint() else missing_packages(_VARIABLE, _PACKAGE)


def endpoint() -> Endpoint | None:
    return Endpoint.of(_VARIABLE, default_model="whisper-1")


def ask_for_words(model: Endpoint, name: str, content: bytes) -> str:
    """The words of a recording, from an endpoint. It may be in any audio format that the endpoint reads."""
    fields = {"model": model.model, "response_format": "json"}
    match model.post_file("/audio/transcriptions", fields, name, content):
        case {"text": str(text)}:
            return text.strip()
        case _:
            raise ToolError("the transcription has no text")


def recognise_words(recording: Recording, context: CallContext) -> str:
    """The words of a recording in English, without punctuation. Long ones are cut in pauses."""
    sphinx = import_module(_PACKAGE)
    recording = recording.at_least(_LOWEST_RATE)
    # A new decoder each time: it adapts to what it hears, and one recording must not change the words of another.
    decoder = sphinx.Decoder(samprate=recording.rate, loglevel="FATAL")
    words: list[str] = []
    for end, samples in recording.pieces():
        decoder.start_utt()
        decoder.process_raw(samples, full_utt=True)
        decoder.end_utt()
        hypothesis = decoder.hyp()
        if hypothesis is not None:
            words += hypothesis.hypstr.split()
        context.report(round(end, 2), round(recording.seconds, 2), "transcribing")
    return " ".join(words)
