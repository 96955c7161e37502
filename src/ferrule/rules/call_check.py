"""Check the arguments of a call: against the tool's schema, and the text of a custom tool against its grammar."""

from __future__ import annotations

from typing import Any, cast

from ferrule.core.fault import Fault
from ferrule.core.json_text import loads
from ferrule.core.tool import ToolDefinition
from ferrule.rules.text_grammar import grammar_faults
from ferrule.schema.checker import checker_for

__all__ = ["argument_faults", "argument_text_faults", "grammar_faults"]


def argument_faults(tool: ToolDefinition, arguments: object) -> tuple[Fault, ...]:
    """What is wrong with the arguments of a call; empty if they are valid. The parameters must be admitted."""
    return checker_for(tool.parameters).faults(arguments) or grammar_faults(tool, cast("Any", arguments))


def argument_text_faults(tool: ToolDefinition, arguments: str) -> tuple[Fault, ...]:
    """The same as `argument_faults` for a JSON text, which must be strict JSON."""
    faults = checker_for(tool.parameters).faults_of_text(arguments)
    if faults or tool.input_grammar is None:
        return faults
    return grammar_faults(tool, loads(arguments))
