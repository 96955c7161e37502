"""The format of each chat template, and what the template writes around a reply: data only.

The files are those that `scripts/setup-oracles` unpacks. A template without one of our formats has a reason. The data
was found by rendering the templates: a user's "hi", then an assistant's turn of one or two calls.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_NO_VARIABLES: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class Template:
    """What a template file writes.

    `format` is ours, or None with a `reason`. `vllm` and `sglang` name the parsers for the template's output, None if
    there is none or if it needs the checkpoint's own vocabulary.

    `opens` is the text between the conversation so far and the first call of a turn without text, `ends` the text after
    the last; `opens_text` is the text before a turn with text, if different. `keeps_text` is false if the template
    drops, moves or splits off the text of a turn with calls.

    `differs` describes how the template differs from our rendering, "" if it does not; `results_differ` does the same
    for results. `needs_a_next_turn`: ids are only written if another message follows. `most_calls` is the maximum in
    one turn, None for any number. `arguments_as_text` and `content_is_null` say how to pass the turn, `variables` which
    other variables it needs.
    """

    format: str | None
    vllm: str | None = None
    sglang: str | None = None
    opens: str = ""
    ends: str = ""
    opens_text: str | None = None
    keeps_text: bool = True
    differs: str = ""
    most_calls: int | None = None
    arguments_as_text: bool = False
    content_is_null: bool = False
    variables: Mapping[str, Any] = field(default_factory=lambda: _NO_VARIABLES)
    results_differ: str = ""
    needs_a_next_turn: bool = False
    reason: str = ""


def _none(reason: str) -> Template:
    return Template(None, reason=reason)


_CHATML: Final = ("<|im_start|>assistant\n", "<|im_end|>\n")
_GRANITE: Final = ("<|start_of_role|>assistant<|end_of_role|>", "<|end_of_text|>\n")
_KIMI: Final = ("<|im_assistant|>assistant<|im_middle|>", "<|im_end|>")
_HEADER: Final = "<|start_header_id|>assistant<|end_header_id|>\n\n"
_CHATBOT: Final = "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"
_SENTENCE: Final = "<｜end▁of▁sentence｜>"
_NO_TOOLS: Final = "has no tool branch: neither tools nor calls are written"
_DROPS: Final = "drops the calls of an assistant's turn"
_TRUE: Final = "writes true, false and null as Python does"
_PYTHON: Final = "writes objects and arrays as Python literals"
_NULL: Final = "writes null as None"


def _qwen(opens: str = "", **more: Any) -> Template:
    return Template("hermes", "hermes", "qwen25", _CHATML[0] + opens, _CHATML[1], **more)


def _granite4() -> Template:
    return Template("granite4", "granite4", "hermes", *_GRANITE)


def _llama3() -> Template:
    return Template("llama3", "llama3_json", "llama3", _HEADER, "<|eot_id|>", keeps_text=False, most_calls=1)


def _laguna_xs() -> Template:
    opens = "<assistant>\n</think>"
    return Template("glm45", "poolside_v1", "poolside_v1", opens, "\n</assistant>\n", opens_text=f"{opens}\n")


def _deepseek_v4() -> Template:
    return Template("dsml_v4", "deepseek_v4", "deepseekv4", "<｜Assistant｜></think>", _SENTENCE)


TEMPLATES: Final[Mapping[str, Template]] = {
    "Apertus-8B-Instruct.jinja": Template("apertus", "apertus", "apertus2509", "<|assistant_start|>"),
    "Apriel-1.6-15b-Thinker-fixed.jinja": Template("apriel", opens="\n<|begin_assistant|>\n", needs_a_next_turn=True),
    "Bielik-11B-v3.0-Instruct.jinja": Template(
        "hermes",
        "hermes",
        "hermes",
        "<|im_start|>assistant\n\n",
        "<|im_end|>\n",
        opens_text="<|im_start|>assistant\n",
        results_differ="writes results after <|function_output|>",
    ),
    "ByteDance-Seed-OSS.jinja": Template(
        "seed_xml", "seed_oss", None, "<seed:bos>assistant\n", "<seed:eos>", differs=_PYTHON
    ),
    "Cohere2MoE.jinja": Template(
        *("cohere_action_cmd4", "cohere_command4", "cohere_command4", _CHATBOT, "<|END_OF_TURN_TOKEN|>"),
        keeps_text=False,
    ),
    "CohereForAI-c4ai-command-r-plus-tool_use.jinja": Template(
        "cohere_rplus", opens=f"{_CHATBOT}\n", ends="\n", opens_text=_CHATBOT, differs="breaks and indents the JSON"
    ),
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use.jinja": Template(
        *("cohere_action", "cohere_command3", None, ""),
        f"<|END_OF_TURN_TOKEN|>{_CHATBOT}<|START_THINKING|><|END_THINKING|>",
        keeps_text=False,
    ),
    "GLM-4.6.jinja": Template(
        *("glm45", "glm45", "glm45", "<|assistant|>\n<think></think>"), opens_text="<|assistant|>\n<think></think>\n"
    ),
    "GLM-4.7-Flash.jinja": Template("glm47", "glm47", "glm47", "<|assistant|></think>"),
    "GigaChat3-10B-A1.8B.jinja": Template(
        *("gigachat3", "gigachat3", "gigachat3", "assistant<|role_sep|>\n", "<|message_sep|>\n\n"), most_calls=1
    ),
    "GigaChat3.1-10B-A1.8B.jinja": Template(
        *("gigachat31", "gigachat3", "gigachat3", "assistant<|role_sep|>\n", "<|message_sep|>\n\n"), most_calls=1
    ),
    "HuggingFaceTB-SmolLM3-3B.jinja": _none(_NO_TOOLS),
    "Kimi-K2-Instruct.jinja": Template("kimi_k2", "kimi_k2", "kimi_k2", *_KIMI),
    "Kimi-K2-Thinking.jinja": Template("kimi_k2", "kimi_k2", "kimi_k2", _KIMI[0] + "<think></think>", _KIMI[1]),
    "Kimi-K3.jinja": Template(
        *(None, "kimi_k3", "kimi_k3"),
        '<|open|>message role="assistant"<|sep|><|open|>think<|sep|><|close|>think<|sep|>',
        "<|close|>message<|sep|><|end_of_msg|>",
        reason="no format of ours: Kimi K3",
    ),
    "LFM2-8B-A1B.jinja": _none(_DROPS),
    "LFM2.5-8B-A1B.jinja": Template(
        "lfm2",
        "lfm2",
        "lfm2",
        *_CHATML,
        differs="does not escape quotes in strings",
        results_differ="writes results without markers",
    ),
    "LFM2.5-Instruct.jinja": _none(_DROPS),
    "MiMo-VL.jinja": Template("hermes", "hermes", "hermes", *_CHATML),
    "MiniMax-M1.jinja": Template(
        "minimax_m1",
        opens="<beginning_of_sentence>ai name=assistant\n",
        ends="<end_of_sentence>\n",
        keeps_text=False,
    ),
    "MiniMax-M2.jinja": Template("minimax_m2", "minimax_m2", "minimax-m2", "]~b]ai\n", "[e~[\n"),
    "MiniMax-M3.jinja": Template(
        *(None, "minimax_m3", "minimax-m3", "]~b]ai\n</mm:think>", "[e~[\n"), reason="no format of ours: MiniMax M3"
    ),
    "Mistral-Small-3.2-24B-Instruct-2506.jinja": Template(
        "mistral_v11", "mistral@v11", "mistral", "", "</s>", keeps_text=False
    ),
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.jinja": Template(
        *("nemotron3_xml", "qwen3_coder", "qwen3_coder", "<|im_start|>assistant\n<think></think>\n", "\n<|im_end|>\n"),
        opens_text="<|im_start|>assistant\n<think></think>",
        differs=_TRUE,
    ),
    "NVIDIA-Nemotron-Nano-v2.jinja": Template(
        "nemotron_toolcall", opens="<SPECIAL_11>Assistant\n", ends="<SPECIAL_12>\n\n", keeps_text=False
    ),
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use.jinja": Template(
        "hermes", "hermes", "hermes", *_CHATML, keeps_text=False
    ),
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use.jinja": Template(
        "hermes", "hermes", "hermes", *_CHATML, keeps_text=False
    ),
    "Qwen-QwQ-32B.jinja": _qwen(),
    "Qwen-Qwen2.5-7B-Instruct.jinja": _qwen(),
    "Qwen-Qwen3-0.6B.jinja": _qwen("<think>\n\n</think>\n\n"),
    "Qwen3-Coder.jinja": Template("qwen_xml", "qwen3_xml", "qwen3_coder", *_CHATML, differs=_TRUE),
    "Qwen3.5-4B.jinja": Template(
        "qwen_xml", "qwen3_xml", "qwen3_coder", _CHATML[0] + "<think>\n\n</think>\n\n", _CHATML[1], differs=_TRUE
    ),
    "Reka-Edge.jinja": Template(
        "hermes_joined", "hermes", "hermes", "assistant: ", "\n\n<sep>", differs="escapes what is not ASCII"
    ),
    "Spark2.5.jinja": Template("glm47", "glm47", "spark25", "<｜start▁of▁sentence｜><|Bot|></think>", _SENTENCE),
    "StepFun3.5-Flash.jinja": Template(
        "step_xml", "step3p5", "step3p5", _CHATML[0] + "<think>\n\n</think>\n", _CHATML[1], differs=_TRUE
    ),
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B.jinja": Template(
        *("deepseek_v3", "deepseek_v3", "deepseekv3", "<｜Assistant｜>", _SENTENCE),
        keeps_text=False,
        differs="closes the section only after the second call",
        most_calls=2,
        arguments_as_text=True,
        content_is_null=True,
    ),
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja": Template(
        *("deepseek_v3", "deepseek_v3", "deepseekv3", "<｜Assistant｜>", f"{_SENTENCE}<｜Assistant｜>{_SENTENCE}"),
        keeps_text=False,
    ),
    "deepseek-ai-DeepSeek-V3.1.jinja": Template(
        "deepseek_v31", "deepseek_v31", "deepseekv31", "<｜Assistant｜><think></think>", _SENTENCE
    ),
    "deepseek-ai-DeepSeek-V3.2.jinja": Template(
        "dsml_v32", "deepseek_v32", "deepseekv32", "<｜Assistant｜></think>", _SENTENCE
    ),
    "deepseek-ai-DeepSeek-V4-Flash-0731.jinja": _deepseek_v4(),
    "deepseek-ai-DeepSeek-V4.jinja": _deepseek_v4(),
    "fireworks-ai-llama-3-firefunction-v2.jinja": Template(
        *("phi4mini_functools", None, None, " ", f"<|eot_id|>{_HEADER}"),
        opens_text="",
        differs="writes a space between the text and the calls",
        variables={"functions": "[]", "datetime": "2026-07-01"},
    ),
    "google-gemma-2-2b-it.jinja": _none(_NO_TOOLS),
    "google-gemma-4-31B-it-interleaved.jinja": Template(
        "gemma4",
        "gemma4",
        "gemma4",
        "<|turn>model\n",
        "<turn|>\n",
        differs=_NULL,
        results_differ="writes results without markers in their own turn",
    ),
    "google-gemma-4-31B-it.jinja": Template(
        "gemma4", "gemma4", "gemma4", "<|turn>model\n", "<|tool_response>", differs=_NULL
    ),
    "ibm-granite-granite-3.3-2B-Instruct.jinja": _none(_DROPS),
    "ibm-granite-granite-4.0.jinja": _granite4(),
    "ibm-granite-granite-4.1.jinja": _granite4(),
    "inclusionai-ling-3.0-flash.jinja": Template(
        "ling3", "ling3", "ling3", "<role>ASSISTANT</role>\n<think></think>", "<|role_end|>"
    ),
    "llama-cpp-deepseek-r1.jinja": Template(
        *("deepseek_v3", "deepseek_v3", "deepseekv3", "<｜Assistant｜>", _SENTENCE),
        keeps_text=False,
        # It passes its tools through a generator that Python's Jinja cannot print; the calls do not depend on them.
        variables={"tools": None},
        results_differ="breaks the line after the section's opening",
    ),
    "llama-cpp-rwkv-world.jinja": _none(_NO_TOOLS),
    "meetkai-functionary-medium-v3.1.jinja": Template("llama3_function_tag", opens=_HEADER, ends="<|eom_id|>"),
    "meetkai-functionary-medium-v3.2.jinja": Template(
        *(None, None, None, _HEADER, "<|eot_id|>"), arguments_as_text=True, reason="no format of ours: Functionary v3.2"
    ),
    "meta-llama-Llama-3.1-8B-Instruct.jinja": _llama3(),
    "meta-llama-Llama-3.2-3B-Instruct.jinja": _llama3(),
    "meta-llama-Llama-3.3-70B-Instruct.jinja": _llama3(),
    "microsoft-Phi-3.5-mini-instruct.jinja": _none(_NO_TOOLS),
    "mistralai-Ministral-3-14B-Reasoning-2512.jinja": Template("mistral_v13", "mistral@v13", "mistral", "", "</s>"),
    "mistralai-Mistral-Nemo-Instruct-2407.jinja": Template(
        "mistral_v3",
        "mistral",
        "mistral",
        "",
        "</s>",
        keeps_text=False,
        results_differ="does not quote the content, so that the JSON is broken",
    ),
    "moonshotai-Kimi-K2.jinja": Template(
        "kimi_k2", "kimi_k2", "kimi_k2", *_KIMI, results_differ="writes a backslash and an n for the newline"
    ),
    "muse-glimmer.jinja": Template(
        *(None, "muse_glimmer", "muse", "<|start|>assistant", "<|eot|>"), reason="no format of ours: Muse Glimmer"
    ),
    "openai-gpt-oss-120b.jinja": Template(
        *("harmony", None, "gpt-oss", "<|start|>assistant"),
        keeps_text=False,
        differs="puts the recipient before the channel",
        most_calls=1,
        results_differ="puts the recipient before the channel and quotes the content",
    ),
    "openbmb-MiniCPM5-1B.jinja": Template("minicpm5", "minicpm5", "minicpm5", *_CHATML, differs=_PYTHON),
    "poolside-Laguna-S-2.1.jinja": Template(
        "glm47", "poolside_v1", "poolside_v1", "<assistant><think></think>", "</assistant>\n"
    ),
    "poolside-Laguna-XS-2.1.jinja": _laguna_xs(),
    "poolside-Laguna-XS.2.jinja": _laguna_xs(),
    "tencent-Hy3.jinja": Template(
        None,
        opens="<｜hy_Assistant:opensource｜><think:opensource></think:opensource>",
        ends="<｜hy_eos:opensource｜>",
        reason="no format of ours: Hy3",
    ),
    "unsloth-Apriel-1.5.jinja": Template(
        "apriel", opens="<|assistant|>\n", ends="\n<|end|>\n</s>", needs_a_next_turn=True
    ),
    "unsloth-mistral-Devstral-Small-2507.jinja": Template("mistral_v13", "mistral@v13", "mistral", "", "</s>"),
    "upstage-Solar-Open-100B.jinja": Template("solar", ends="<|begin|>assistant", keeps_text=False),
}
