"""Formats: how model families write tool calls, reasoning and results, without an engine.

A `Format` is one definition from which text is rendered, parsed and constrained. Use this module to parse or render the
text of a model that something else runs, to find the format of a chat template, or to write a format of your own.

Example:
    from ferrule.formats import get_format, parse

    reply = parse(get_format("hermes"), '<tool_call>{"name": "now", "arguments": {}}</tool_call>')
    print(reply.calls[0].name)
"""

from typing import TYPE_CHECKING

from ferrule.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ferrule.rules.lark import emit_lark
    from ferrule.rules.matcher import ByteMatcher
    from ferrule.wire.detection import Detection, detect
    from ferrule.wire.format import Example, Format, results
    from ferrule.wire.node import (
        ARGS,
        BODY,
        ID,
        JSON,
        JSON_COMPACT,
        KEY,
        KIND,
        NAME,
        PYTHON,
        THINK_TAGS,
        VALUE,
        Entry,
        HeaderId,
        calls,
        closer,
        envelope,
        fields,
        free,
        keyword_args,
        lit,
        literal_args,
        opener,
        seq,
        space,
        think,
        turn,
    )
    from ferrule.wire.parser import Parser, parse
    from ferrule.wire.prompt import format_with_tools, has_native_support, parse_tool_calls
    from ferrule.wire.registry import all_formats, get_format, preset, register
    from ferrule.wire.renderer import render, render_results
    from ferrule.wire.rule_builder import bind
    from ferrule.wire.template.chat_template import ChatTemplate, TemplateLimits
    from ferrule.wire.template.probe import TemplateFault, probe
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "rules.lark": ["emit_lark"],
            "rules.matcher": ["ByteMatcher"],
            "wire.detection": ["Detection", "detect"],
            "wire.format": ["Example", "Format", "results"],
            "wire.node": [
                *("ARGS", "BODY", "ID", "JSON", "JSON_COMPACT", "KEY", "KIND", "NAME", "PYTHON", "THINK_TAGS", "VALUE"),
                *("Entry", "HeaderId", "calls", "closer", "envelope", "fields", "free", "keyword_args", "lit"),
                *("literal_args", "opener", "seq", "space", "think", "turn"),
            ],
            "wire.parser": ["Parser", "parse"],
            "wire.prompt": ["format_with_tools", "has_native_support", "parse_tool_calls"],
            "wire.registry": ["all_formats", "get_format", "preset", "register"],
            "wire.renderer": ["render", "render_results"],
            "wire.rule_builder": ["bind"],
            "wire.template.chat_template": ["ChatTemplate", "TemplateLimits"],
            "wire.template.probe": ["TemplateFault", "probe"],
        },
    )

__all__ = [
    "ARGS",
    "BODY",
    "ID",
    "JSON",
    "JSON_COMPACT",
    "KEY",
    "KIND",
    "NAME",
    "PYTHON",
    "THINK_TAGS",
    "VALUE",
    "ByteMatcher",
    "ChatTemplate",
    "Detection",
    "Entry",
    "Example",
    "Format",
    "HeaderId",
    "Parser",
    "TemplateFault",
    "TemplateLimits",
    "all_formats",
    "bind",
    "calls",
    "closer",
    "detect",
    "emit_lark",
    "envelope",
    "fields",
    "format_with_tools",
    "free",
    "get_format",
    "has_native_support",
    "keyword_args",
    "lit",
    "literal_args",
    "opener",
    "parse",
    "parse_tool_calls",
    "preset",
    "probe",
    "register",
    "render",
    "render_results",
    "results",
    "seq",
    "space",
    "think",
    "turn",
]
