"""Reads a WAV recording, with only the standard library: its samples, its length, its loudness and its silences."""

from __future__ import annotations

import io
import math
import struct
import wave
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ferrule import ToolError

_WINDOW_SECONDS = 0.1
_SILENT_DECIBELS = -50.0
_QUIETEST = -96.0
_LOUDEST = 32_767
_PIECE_SECONDS = 20.0
_LOWEST_RATE, _HIGHEST_RATE = 4_000, 192_000


@dataclass(frozen=True, slots=True)
class Recording:
    """The first channel of a recording, as numbers from -1 to 1."""

    rate: int
    channels: int
    width: int
    samples: list[float]

    @staticmethod
    def read(content: bytes) -> Recording:
        try:
            with wave.open(io.BytesIO(content)) as sound:
                rate, channels, width = sound.getframerate(), sound.getnchannels(), sound.getsampwidth()
                if not _LOWEST_RATE <= rate <= _HIGHEST_RATE:
                    raise ToolError(f"recordings with {rate} Hz are not supported")
                samples = _samples(sound.readframes(sound.getnframes()), width)[::channels]
        except (wave.Error, EOFError, struct.error) as problem:
            raise ToolError("it is not a readable WAV recording") from problem
        return Recording(rate, channels, width, samples)

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate

    def at_least(self, rate: int) -> Recording:
        """The same with a higher rate, if its own is lower. New samples lie on lines between the old ones."""
        if self.rate >= rate or not self.samples:
            return self
        step = self.rate / rate
        padded = [*self.samples, self.samples[-1]]
        positions = (at * step for at in range(int(len(self.samples) / step)))
        samples = [padded[int(at)] + (at % 1) * (padded[int(at) + 1] - padded[int(at)]) for at in positions]
        return Recording(rate, self.channels, self.width, samples)

    def pieces(self) -> Iterator[tuple[float, bytes]]:
        """Pieces of about twenty seconds, cut in silences, each with its end in seconds. The samples have 16 bits."""
        middles = [(one["from"] + one["to"]) / 2 for one in self._silences()]
        start = 0.0
        for end in [*middles, math.inf]:
            if end - start >= _PIECE_SECONDS:
                samples = self.samples[int(start * self.rate) : None if end == math.inf else int(end * self.rate)]
                if samples:
                    yield min(end, self.seconds), array("h", (int(value * _LOUDEST) for value in samples)).tobytes()
                start = end

    def measure(self) -> dict[str, Any]:
        """What can be said of a recording without understanding it."""
        return {
            "format": f"WAV, {8 * self.width} bits, {self.rate} Hz, {self.channels} channel{'s' * (self.channels > 1)}",
            "seconds": round(self.seconds, 2),
            "loudness_dbfs": round(_decibels(self.samples), 1),
            "peak_dbfs": round(_level(max(map(abs, self.samples), default=0.0)), 1),
            "silences": self._silences(),
        }

    def _silences(self) -> list[dict[str, float]]:
        """The silent ranges, in seconds."""
        window = max(1, int(self.rate * _WINDOW_SECONDS))
        loudness = [_decibels(self.samples[at : at + window]) for at in range(0, len(self.samples), window)]
        silences: list[dict[str, float]] = []
        began: int | None = None
        for at, level in enumerate([*loudness, 0.0]):
            if level < _SILENT_DECIBELS and began is None:
                began = at
            elif level >= _SILENT_DECIBELS and began is not None:
                silences.append({"from": round(began * _WINDOW_SECONDS, 1), "to": round(at * _WINDOW_SECONDS, 1)})
                began = None
        return silences


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
