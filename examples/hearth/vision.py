"""What a picture shows: from a vision model's endpoint if one is set, otherwise the text in it, read by RapidOCR.

RapidOCR and its models come in one wheel. They read printed Latin and Chinese text; they do not recognise things.
"""

from __future__ import annotations

import base64
import io
from functools import cache
from importlib import import_module
from typing import Any

from ferrule import ToolError
from hearth.endpoint import Endpoint, missing_packages

MOST_PIXELS = 16_000_000
_VARIABLE = "HEARTH_VISION"
_PACKAGES = ("rapidocr", "onnxruntime")
_QUESTION = "Describe this picture in a few sentences, and write out the text in it, if there is any."


def missing() -> str | None:
    """What is missing to describe pictures; None if nothing is."""
    model = endpoint()
    if model is None:
        return missing_packages(_VARIABLE, *_PACKAGES)
    return None if model.model else f"set {_VARIABLE}_MODEL to the name of the model at {_VARIABLE}_URL"


def endpoint() -> Endpoint | None:
    return Endpoint.of(_VARIABLE)


def ask_for_description(model: Endpoint, media_type: str, content: bytes) -> str:
    """A description of a picture, from an endpoint."""
    data = f"data:{media_type};base64,{base64.b64encode(content).decode()}"
    parts = [{"type": "text", "text": _QUESTION}, {"type": "image_url", "image_url": {"url": data}}]
    body = {"model": model.model, "messages": [{"role": "user", "content": parts}]}
    match model.post_json("/chat/completions", body):
        case {"choices": [{"message": {"content": str(text)}}, *_]} if text.strip():
            return text.strip()
        case _:
            raise ToolError("the vision model did not describe the picture")


def read_lines(content: bytes) -> list[str]:
    """The lines of text in a picture, from top to bottom."""
    pillow = import_module("PIL.Image")
    try:
        with pillow.open(io.BytesIO(content)) as picture:
            width, height = picture.size
            is_too_large = width * height > MOST_PIXELS
            if not is_too_large:
                picture.load()
    except pillow.DecompressionBombError:
        is_too_large = True
    except (OSError, SyntaxError, ValueError) as problem:
        raise ToolError("the picture is damaged") from problem
    if is_too_large:
        raise ToolError("the picture is too large")
    return [str(line) for line in _reader()(content).txts or ()]


@cache
def _reader() -> Any:
    # By default it enlarges small pictures, which took five times as long and read nothing more.
    size = {"Det.limit_type": "max", "Det.limit_side_len": 960}
    return import_module(_PACKAGES[0]).RapidOCR(params={"Global.log_level": "critical", **size})
