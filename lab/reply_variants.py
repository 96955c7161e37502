"""The text of a reply in each format, written by hand for comparisons.

Deliberately independent of `ferrule.wire`: texts from our own renderer would repeat our own mistakes. Each function
takes the text before the calls and the calls, and returns the reply as the model would write it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

Arguments = Mapping[str, Any]
Calls = Sequence[tuple[str, Arguments]]
Spelling = Callable[[str, Calls], str]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _raw(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _objects(calls: Calls, key: str = "arguments") -> list[dict[str, Any]]:
    return [{"name": name, key: arguments} for name, arguments in calls]


def _line(text: str) -> str:
    return f"{text}\n" if text else ""


def _json_in_tags(opener: str, closed: str) -> Spelling:
    def spell(text: str, calls: Calls) -> str:
        return _line(text) + "\n".join(opener + _json(call) + closed for call in _objects(calls))

    return spell


def _json_array(opener: str, closed: str) -> Spelling:
    def spell(text: str, calls: Calls) -> str:
        return text + opener + _json(_objects(calls)) + closed

    return spell


def _function_tags(opener: str, closed: str, *, trimmed: str, between: str, separator: str) -> Spelling:
    """Qwen's XML: `trimmed` is on both sides inside a parameter, `between` between tags, `separator` between calls."""

    def spell(text: str, calls: Calls) -> str:
        blocks: list[str] = []
        for name, arguments in calls:
            parameters = [
                f"<parameter={key}>{trimmed}{_raw(value)}{trimmed}</parameter>" for key, value in arguments.items()
            ]
            inner = between.join([f"<function={name}>", *parameters, "</function>"])
            blocks.append(between.join([opener, inner, closed]))
        return _line(text) + separator.join(blocks)

    return spell


def _llama3(text: str, calls: Calls) -> str:
    return text + "; ".join(_json(call) for call in _objects(calls, "parameters"))


def _python_calls(calls: Calls, literal: Callable[[Any], str]) -> list[str]:
    return [
        f"{name}({', '.join(f'{key}={literal(value)}' for key, value in arguments.items())})"
        for name, arguments in calls
    ]


def _pythonic(opener: str, closed: str) -> Spelling:
    def spell(text: str, calls: Calls) -> str:
        return text + opener + ", ".join(_python_calls(calls, repr)) + closed

    return spell


def _lfm2(text: str, calls: Calls) -> str:
    def literal(value: Any) -> str:
        return _json(value) if isinstance(value, (dict, list)) else repr(value)

    return f"{text}<|tool_call_start|>[{', '.join(_python_calls(calls, literal))}]<|tool_call_end|>"


def _olmo3(text: str, calls: Calls) -> str:
    lines = "\n".join(_python_calls(calls, _json))
    return f"{_line(text)}<function_calls>{lines}</function_calls>"


def _mistral_v3(text: str, calls: Calls) -> str:
    numbered = [{**call, "id": f"abcdefg{number:02}"} for number, call in enumerate(_objects(calls))]
    return f"{text}[TOOL_CALLS]{_json(numbered)}"


def _mistral_v3_spaced(text: str, calls: Calls) -> str:
    """As SentencePiece vocabularies decode it: with a space after the marker."""
    return _mistral_v3(text, calls).replace("[TOOL_CALLS]", "[TOOL_CALLS] ", 1)


def _mistral_v11(text: str, calls: Calls) -> str:
    return text + "".join(
        f"[TOOL_CALLS]{name}[CALL_ID]abcdefg{number:02}[ARGS]{_json(arguments)}"
        for number, (name, arguments) in enumerate(calls)
    )


def _mistral_v13(text: str, calls: Calls) -> str:
    return text + "".join(f"[TOOL_CALLS]{name}[ARGS]{_json(arguments)}" for name, arguments in calls)


def _deepseek_section(blocks: list[str], separator: str) -> str:
    inner = separator.join(f"<｜tool▁call▁begin｜>{block}<｜tool▁call▁end｜>" for block in blocks)
    return f"<｜tool▁calls▁begin｜>{inner}<｜tool▁calls▁end｜>"


def _deepseek_v3(text: str, calls: Calls) -> str:
    blocks = [f"function<｜tool▁sep｜>{name}\n```json\n{_json(arguments)}\n```" for name, arguments in calls]
    return text + _deepseek_section(blocks, "\n")


def _deepseek_v31(text: str, calls: Calls) -> str:
    return text + _deepseek_section([f"{name}<｜tool▁sep｜>{_json(arguments)}" for name, arguments in calls], "")


def _dsml(section: str) -> Spelling:
    def parameter(key: str, value: Any) -> str:
        is_string = "true" if isinstance(value, str) else "false"
        return f'<｜DSML｜parameter name="{key}" string="{is_string}">{_raw(value)}</｜DSML｜parameter>'

    def spell(text: str, calls: Calls) -> str:
        invokes = [
            "\n".join(
                [
                    f'<｜DSML｜invoke name="{name}">',
                    *(parameter(key, value) for key, value in arguments.items()),
                    "</｜DSML｜invoke>",
                ]
            )
            for name, arguments in calls
        ]
        return "\n".join([f"{text}\n\n<｜DSML｜{section}>", *invokes, f"</｜DSML｜{section}>"])

    return spell


def _kimi_k2(text: str, calls: Calls) -> str:
    blocks = "".join(
        f"<|tool_call_begin|>functions.{name}:{number}<|tool_call_argument_begin|>{_json(arguments)}<|tool_call_end|>"
        for number, (name, arguments) in enumerate(calls)
    )
    return f"{text}<|tool_calls_section_begin|>{blocks}<|tool_calls_section_end|>"


def _glm(between: str) -> Spelling:
    def spell(text: str, calls: Calls) -> str:
        blocks = [
            between.join(
                [
                    f"<tool_call>{name}",
                    *(
                        f"<arg_key>{key}</arg_key>{between}<arg_value>{_raw(value)}</arg_value>"
                        for key, value in arguments.items()
                    ),
                    "</tool_call>",
                ]
            )
            for name, arguments in calls
        ]
        return text + between + between.join(blocks)

    return spell


def _minimax_m2(text: str, calls: Calls) -> str:
    invokes = [
        "\n".join(
            [
                f'<invoke name="{name}">',
                *(f'<parameter name="{key}">{_raw(value)}</parameter>' for key, value in arguments.items()),
                "</invoke>",
            ]
        )
        for name, arguments in calls
    ]
    return "\n".join([f"{text}\n<minimax:tool_call>", *invokes, "</minimax:tool_call>"])


def _literal_text(value: Any, quote: str, *, quoted_keys: bool) -> str:
    match value:
        case str():
            return f"{quote}{value}{quote}"
        case dict():
            fields = cast("dict[str, Any]", value)
            mark = quote if quoted_keys else ""
            inner = ",".join(
                f"{mark}{key}{mark}:{_literal_text(fields[key], quote, quoted_keys=quoted_keys)}"
                for key in sorted(fields)
            )
            return f"{{{inner}}}"
        case list():
            items = cast("list[Any]", value)
            return f"[{','.join(_literal_text(item, quote, quoted_keys=quoted_keys) for item in items)}]"
        case _:
            return _json(value)


def _gemma(opener: str, closed: str, quote: str, *, quoted_keys: bool) -> Spelling:
    def spell(text: str, calls: Calls) -> str:
        blocks: list[str] = []
        for name, arguments in calls:
            inner = ",".join(
                f"{key}:{_literal_text(arguments[key], quote, quoted_keys=quoted_keys)}" for key in sorted(arguments)
            )
            blocks.append(f"{opener}call:{name}{{{inner}}}{closed}")
        return text + "".join(blocks)

    return spell


def _cohere_action(text: str, calls: Calls) -> str:
    entries = [
        _json({"tool_call_id": str(number), "tool_name": name, "parameters": arguments})
        for number, (name, arguments) in enumerate(calls)
    ]
    return f"{text}<|START_ACTION|>[\n    " + ",\n    ".join(entries) + "\n]<|END_ACTION|>"


def _harmony(text: str, calls: Calls) -> str:
    messages = [f"<|channel|>commentary<|message|>{text}<|end|>"] if text else []
    messages += [
        f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{_json(arguments)}<|call|>"
        for name, arguments in calls
    ]
    return "<|start|>assistant".join(messages)


def _minicpm5(text: str, calls: Calls) -> str:
    def value_text(value: Any) -> str:
        raw = _raw(value)
        return f"<![CDATA[{raw}]]>" if any(mark in raw for mark in "<&\n") else raw

    blocks = [
        f'<function name="{name}">'
        + "".join(f'<param name="{key}">{value_text(value)}</param>' for key, value in arguments.items())
        + "</function>"
        for name, arguments in calls
    ]
    return _line(text) + "\n".join(blocks)


def _internlm(between: str) -> Spelling:
    """`between` is the text between the two special tokens: a space or nothing, depending on the detokenizer."""

    def spell(text: str, calls: Calls) -> str:
        opener = f"<|action_start|>{between}<|plugin|>\n"
        return text + "".join(f"{opener}{_json(call)}<|action_end|>" for call in _objects(calls, "parameters"))

    return spell


def _apertus(text: str, calls: Calls) -> str:
    return f"{text}<|tools_prefix|>{_json([{name: arguments} for name, arguments in calls])}<|tools_suffix|>"


def _step3(text: str, calls: Calls) -> str:
    blocks = [
        f'<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="{name}">\n'
        + "".join(
            f'<steptml:parameter name="{key}">{_raw(value)}</steptml:parameter>\n' for key, value in arguments.items()
        )
        + "</steptml:invoke><｜tool_call_end｜>\n"
        for name, arguments in calls
    ]
    return f"{text}<｜tool_calls_begin｜>\n{''.join(blocks)}<｜tool_calls_end｜>"


SPELLINGS: Final[Mapping[str, Spelling]] = {
    "hermes": _json_in_tags("<tool_call>\n", "\n</tool_call>"),
    "longcat": _json_in_tags("<longcat_tool_call>\n", "\n</longcat_tool_call>"),
    "qwen_xml": _function_tags("<tool_call>", "</tool_call>", trimmed="\n", between="\n", separator="\n"),
    "mimo_xml": _function_tags("<tool_call>", "</tool_call>", trimmed="", between="\n", separator="\n"),
    "seed_xml": _function_tags("<seed:tool_call>", "</seed:tool_call>", trimmed="", between="\n", separator="\n"),
    "step_xml": _function_tags("<tool_call>", "</tool_call>", trimmed="\n", between="\n", separator=""),
    "llama3": _llama3,
    "pythonic": _pythonic("[", "]"),
    "llama4_pythonic": _pythonic("<|python_start|>[", "]<|python_end|>"),
    "lfm2": _lfm2,
    "olmo3": _olmo3,
    "mistral_v3": _mistral_v3,
    "mistral_v3_spaced": _mistral_v3_spaced,
    "mistral_v11": _mistral_v11,
    "mistral_v13": _mistral_v13,
    "deepseek_v3": _deepseek_v3,
    "deepseek_v31": _deepseek_v31,
    "dsml_v32": _dsml("function_calls"),
    "dsml_v4": _dsml("tool_calls"),
    "kimi_k2": _kimi_k2,
    "glm45": _glm("\n"),
    "glm47": _glm(""),
    "minimax_m2": _minimax_m2,
    "gemma4": _gemma("<|tool_call>", "<tool_call|>", '<|"|>', quoted_keys=False),
    "functiongemma": _gemma("<start_function_call>", "<end_function_call>", "<escape>", quoted_keys=True),
    "granite3": _json_array("<|tool_call|>", ""),
    "xlam": _json_array("", ""),
    "phi4mini": _json_array("functools", ""),
    "cohere_action": _cohere_action,
    "harmony": _harmony,
    "minicpm5": _minicpm5,
    "hunyuan": _json_array("<tool_calls>", "</tool_calls>"),
    "internlm": _internlm(" "),
    "internlm_tight": _internlm(""),
    "apertus": _apertus,
    "step3": _step3,
}
