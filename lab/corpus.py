"""The texts for comparing our parsers with others, and the reply that each text means.

Every family is one of our formats that vLLM or SGLang also parses. The cases are the same for all; each family writes
them in its own way (`reply_variants`). Independent of how the parsers are run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from lab.peers.markers import SPECIALS
from lab.peers.tokens import chunks
from lab.reply_variants import SPELLINGS, Calls


@dataclass(frozen=True, slots=True)
class CorpusCase:
    """A reply: the text before the calls, and the calls."""

    name: str
    text: str
    calls: Calls


@dataclass(frozen=True, slots=True)
class Family:
    """One of our formats, and the other parsers for it.

    `specials` are the marker strings that are single tokens. `takes_text` is false if a reply with a call contains
    nothing but the call. `spelling` names the variant if a format has two; an engine that was written for one variant
    is only tested with that one.
    """

    format: str
    vllm: str | None
    sglang: str | None
    specials: tuple[str, ...]
    takes_text: bool = True
    spelling: str = ""

    @property
    def name(self) -> str:
        return self.spelling or self.format

    def render(self, case: CorpusCase) -> str:
        return SPELLINGS[self.name](self.text_of(case), case.calls)

    def text_of(self, case: CorpusCase) -> str:
        return case.text if self.takes_text else ""

    def chunks(self, case: CorpusCase, tokens_per_chunk: int | None) -> list[str]:
        """The reply, `tokens_per_chunk` tokens at a time, special tokens whole; None is the whole reply at once."""
        return chunks(self.render(case), self.specials, tokens_per_chunk)


CHUNKINGS: Final[tuple[int | None, ...]] = (1, 2, 4, 8, None)


def _tool(name: str, description: str, properties: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": dict(properties), "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS: Final[tuple[dict[str, Any], ...]] = (
    _tool(
        "get_weather",
        "The weather forecast for a city.",
        {"city": {"type": "string"}, "days": {"type": "integer"}},
        ["city"],
    ),
    _tool(
        "save_note",
        "Keep a note.",
        {
            "title": {"type": "string"},
            "body": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "meta": {"type": "object"},
            "pinned": {"type": "boolean"},
            "ratio": {"type": "number"},
        },
        ["title", "body"],
    ),
    _tool("ping", "See whether the service is there.", {}, []),
)

CASES: Final = (
    CorpusCase("one", "", (("get_weather", {"city": "Paris", "days": 2}),)),
    CorpusCase(
        "two",
        "Let me look that up.",
        (("get_weather", {"city": "Paris", "days": 2}), ("get_weather", {"city": "Rome"})),
    ),
    CorpusCase(
        "hard",
        "",
        (
            (
                "save_note",
                {
                    "title": 'Reise nach "Zürich", 東京 🗼',
                    "body": "first line\nsecond: <b>it's</b> 100% {x} [y]; a\\b",
                    "tags": ["a, b", "c=d"],
                    "meta": {"list": [1, True, None, "q"], "inner": {"key": "value"}, "none": {}},
                    "pinned": False,
                    "ratio": 0.5,
                },
            ),
        ),
    ),
    CorpusCase("empty", "", (("ping", {}),)),
)


def _family(format: str, vllm: str, sglang: str | None, *, takes_text: bool = True, spelling: str = "") -> Family:
    return Family(format, vllm, sglang, SPECIALS[vllm], takes_text, spelling)


FAMILIES: Final[tuple[Family, ...]] = (
    _family("hermes", "hermes", "hermes"),
    _family("longcat", "longcat", None),
    _family("qwen_xml", "qwen3_xml", "qwen3_coder"),
    _family("mimo_xml", "mimo", "mimo"),
    _family("seed_xml", "seed_oss", None),
    _family("step_xml", "step3p5", "step3p5"),
    _family("llama3", "llama3_json", "llama3", takes_text=False),
    _family("pythonic", "pythonic", "pythonic", takes_text=False),
    _family("llama4_pythonic", "llama4_pythonic", "pythonic", takes_text=False),
    _family("lfm2", "lfm2", "lfm2"),
    _family("olmo3", "olmo3", None, takes_text=False),
    _family("mistral_v3", "mistral", "mistral"),
    _family("mistral_v3", "mistral", "mistral", spelling="mistral_v3_spaced"),
    _family("mistral_v11", "mistral@v11", "mistral"),
    _family("mistral_v13", "mistral@v13", "mistral"),
    _family("deepseek_v3", "deepseek_v3", "deepseekv3"),
    _family("deepseek_v31", "deepseek_v31", "deepseekv31"),
    _family("dsml_v32", "deepseek_v32", "deepseekv32"),
    _family("dsml_v4", "deepseek_v4", "deepseekv4"),
    _family("kimi_k2", "kimi_k2", "kimi_k2"),
    _family("glm45", "glm45", "glm45"),
    _family("glm47", "glm47", "glm47"),
    _family("minimax_m2", "minimax_m2", "minimax-m2"),
    _family("gemma4", "gemma4", "gemma4"),
    _family("functiongemma", "functiongemma", None),
    _family("granite3", "granite", None),
    _family("xlam", "xlam", None, takes_text=False),
    _family("phi4mini", "phi4_mini_json", None, takes_text=False),
    _family("cohere_action", "cohere_command4", "cohere_command4", takes_text=False),
    Family(
        "harmony",
        None,
        "gpt-oss",
        ("<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>"),
    ),
    _family("minicpm5", "minicpm5", "minicpm5"),
    _family("hunyuan", "hunyuan_a13b", None),
    Family("internlm", None, "interns1", SPECIALS["internlm"]),
    _family("internlm", "internlm", None, spelling="internlm_tight"),
    _family("apertus", "apertus", "apertus2509"),
    _family("step3", "step3", "step3"),
)
