"""Mistral's own renderer, mistral_common, for the tokenizer versions v3, v7, v11 and v13.

"v3-spm" and "v7-spm" are the SentencePiece vocabularies in the package, whose text shows a space as `▁`. The others are
Tekken vocabularies, whose text is exact: v3 is in the package; the later ones are its Tekken file with the version
number and special tokens from the package's own list.
"""

import importlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

_TEKKEN: Final = ("v7", "v11", "v13")


def render(
    version: str, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None, *, finished: bool
) -> str:
    """The conversation (OpenAI messages) as text.

    `finished`: the last message is the assistant's; otherwise it must be the user's or a tool's, as in a request. Call
    ids must have nine letters or digits.
    """
    request_class = importlib.import_module("mistral_common.protocol.instruct.request").ChatCompletionRequest
    request = request_class.from_openai(messages=[dict(message) for message in messages], tools=tools and list(tools))
    return _tokenizer(version, finished).encode_chat_completion(request).text


@cache
def _tokenizer(version: str, finished: bool) -> Any:
    maker = importlib.import_module("mistral_common.tokens.tokenizers.mistral").MistralTokenizer
    data = Path(importlib.import_module("mistral_common").__file__ or "").parent / "data"
    modes = importlib.import_module("mistral_common.protocol.instruct.validator").ValidationMode
    mode = modes.finetuning if finished else modes.test
    match version:
        case "v3":
            return maker.from_file(str(data / "tekken_240911.json"), mode=mode)
        case "v3-spm" | "v7-spm":
            (model,) = data.glob(f"*.model.{version.removesuffix('-spm')}")
            return maker.from_file(str(model), mode=mode)
        case _ if version in _TEKKEN:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "tekken.json"
                path.write_text(json.dumps(_tekken(data / "tekken_240911.json", version)), encoding="utf-8")
                return maker.from_file(str(path), mode=mode)
        case _:
            raise ValueError(f"version {version!r} is none of v3, v3-spm, v7-spm, {', '.join(_TEKKEN)}")


def _tekken(carried: Path, version: str) -> dict[str, Any]:
    vocabulary = json.loads(carried.read_text(encoding="utf-8"))
    vocabulary.pop("image", None)
    vocabulary["config"]["version"] = version
    special_tokens = importlib.import_module(
        "mistral_common.tokens.tokenizers.tekken"
    ).Tekkenizer.DEPRECATED_SPECIAL_TOKENS
    names: Any = importlib.import_module("mistral_common.tokens.tokenizers.base").SpecialTokens
    tokens = [{**token, "token_str": str(token["token_str"])} for token in special_tokens]
    present = {token["token_str"] for token in tokens}
    added = [str(name) for name in names if str(name) not in present]
    vocabulary["special_tokens"] = [
        *tokens,
        *({"rank": rank, "token_str": name, "is_control": True} for rank, name in enumerate(added, start=len(tokens))),
    ]
    return vocabulary
