"""Which marker strings are single tokens in the vocabularies that each vLLM parser was written for.

Markers that models spell in ordinary text (`<function=`, `<invoke name="`, `<tool_calls>` of Hunyuan) are left out on
purpose: they must arrive in pieces, as they do from a real model. A name with `@` is the parser before the `@`, driven
with another vocabulary: vLLM's Mistral parser chooses its format by whether `[ARGS]` is a token.
"""

from collections.abc import Mapping
from typing import Final

_QWEN: Final = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<|im_start|>", "<|im_end|>")
_GLM: Final = (
    *("<think>", "</think>", "<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
    *("<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"),
)
_DEEPSEEK: Final = (
    *("<think>", "</think>", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>"),
    *("<｜tool▁call▁end｜>", "<｜tool▁sep｜>", "<｜end▁of▁sentence｜>"),
)
_DSML: Final = ("<think>", "</think>", "｜DSML｜", "<｜end▁of▁sentence｜>")
_LLAMA: Final = ("<|python_tag|>", "<|eom_id|>", "<|eot_id|>")
_LLAMA4: Final = ("<|python_start|>", "<|python_end|>", "<|eom|>", "<|eot|>")
_COHERE: Final = (
    *("<|START_THINKING|>", "<|END_THINKING|>", "<|START_ACTION|>", "<|END_ACTION|>"),
    *("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>", "<|END_OF_TURN_TOKEN|>"),
)

SPECIALS: Final[Mapping[str, tuple[str, ...]]] = {
    "apertus": ("<|tools_prefix|>", "<|tools_suffix|>", "<|inner_prefix|>", "<|inner_suffix|>", "<|assistant_end|>"),
    "cohere_command3": _COHERE,
    "cohere_command4": _COHERE,
    "deepseek_v3": _DEEPSEEK,
    "deepseek_v31": _DEEPSEEK,
    "deepseek_v32": _DSML,
    "deepseek_v4": _DSML,
    "functiongemma": ("<start_function_call>", "<end_function_call>", "<escape>", "<end_of_turn>"),
    "gemma4": (
        *("<|tool_call>", "<tool_call|>", '<|"|>', "<|channel>", "<channel|>", "<|turn>", "<turn|>"),
        *("<|tool_response>", "<tool_response|>"),
    ),
    "glm45": _GLM,
    "glm47": _GLM,
    "granite": ("<|tool_call|>", "<|end_of_text|>"),
    "hermes": _QWEN,
    "hunyuan_a13b": ("<|eos|>",),
    "internlm": ("<|action_start|>", "<|action_end|>", "<|plugin|>", "<|interpreter|>", "<|im_end|>"),
    "kimi_k2": (
        *("<think>", "</think>", "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>"),
        *("<|tool_call_end|>", "<|tool_call_argument_begin|>", "<|im_end|>"),
    ),
    "lfm2": ("<|tool_call_start|>", "<|tool_call_end|>", "<|im_end|>"),
    "llama3_json": _LLAMA,
    "llama4_pythonic": _LLAMA4,
    "longcat": ("<longcat_tool_call>", "</longcat_tool_call>"),
    "mimo": _QWEN,
    "minicpm5": ("<|im_start|>", "<|im_end|>"),
    "minimax_m2": ("<think>", "</think>", "<minimax:tool_call>", "</minimax:tool_call>", "[e~["),
    "mistral": ("[TOOL_CALLS]", "[INST]", "[/INST]", "</s>"),
    "mistral@v11": ("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[INST]", "[/INST]", "</s>"),
    "mistral@v13": ("[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]", "[INST]", "[/INST]", "</s>"),
    "olmo3": ("<|im_start|>", "<|im_end|>"),
    "phi4_mini_json": ("<|tool_call|>", "<|/tool_call|>", "<|end|>"),
    "pythonic": _LLAMA,
    "qwen3_coder": _QWEN,
    "qwen3_xml": _QWEN,
    "seed_oss": (
        *("<seed:tool_call>", "</seed:tool_call>", "<seed:think>", "</seed:think>", "<seed:bos>", "<seed:eos>"),
    ),
    "step3": (
        *("<｜tool_calls_begin｜>", "<｜tool_calls_end｜>", "<｜tool_call_begin｜>", "<｜tool_call_end｜>"),
        *("<｜tool_sep｜>",),
    ),
    "step3p5": _QWEN,
    "xlam": (),
}

# One token, but not one that a tokenizer lists as special: vLLM drops special tokens that a parser does not name.
NOT_SPECIAL: Final = frozenset({"｜DSML｜"})
