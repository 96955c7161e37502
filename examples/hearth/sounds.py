"""Analyzes a WAV recording: length, loudness and silences. Transcribing the words needs a real speech model."""

from __future__ import annotations

import io
import math
import struct
import wave
from typing import Any

from ferrule import ToolError, tool
from hearth.files import content_of

_WINDOW_SECONDS = 0.1
_SILENT_DECIBELS = -50.0
_QUIETEST = -96.0


@tool(bound_to=("stt.transcribe", "1.0"))
def transcribe_audio(file: str) -> dict[str, Any]:
    """Says what a recording holds: how long it is, how loud, and where there is silence.

    Args:
        file: the recording's name
    """
    try:
        with wave.open(io.BytesIO(content_of(file))) as sound:
            rate, channels, width = sound.getframerate(), sound.getnchannels(), sound.getsampwidth()
            samples = _samples(sound.readframes(sound.getnframes()), width)[::channels]
    except (wave.Error, EOFError, struct.error) as problem:
        raise ToolError("it is not a readable WAV recording") from problem
    window = max(1, int(rate * _WINDOW_SECONDS))
    loudness = [_decibels(samples[at : at + window]) for at in range(0, len(samples), window)]
    return {
        "format": f"WAV, {8 * width} bits, {rate} Hz, {channels} channel{'s' if channels > 1 else ''}",
        "seconds": round(len(samples) / rate, 2),
        "loudness_dbfs": round(_decibels(samples), 1),
        "peak_dbfs": round(_level(max(map(abs, samples), default=0.0)), 1),
        "silences": _silences(loudness),
    }


def _samples(data: bytes, width: int) -> list[float]:
    if width == 1:
        return [(byte - 128) / 128 for byte in data]
    if width == 2:
        return [value / 32_768 for (value,) in struct.iter_unpack("<h", data)]
    raise ToolError(f"recordings with {8 * width} bits are not supported")


def _decibels(samples: list[float]) -> float:
    return _level(math.sqrt(sum(value * value for value in samples) / len(samples))) if samples else _QUIETEST


def _level(amplitude: float) -> float:
    return max(_QUIETEST, 20 * math.log10(amplitude)) if amplitude > 0 else _QUIETEST


def _silences(loudness: list[float]) -> list[dict[str, float]]:
    """The silent ranges, in seconds."""
    silences: list[dict[str, float]] = []
    began: int | None = None
    for at, level in enumerate([*loudness, 0.0]):
        if level < _SILENT_DECIBELS and began is None:
            began = at
        elif level >= _SILENT_DECIBELS and began is not None:
            silences.append({"from": round(began * _WINDOW_SECONDS, 1), "to": round(at * _WINDOW_SECONDS, 1)})
            began = None
    return silences
