"""What one more tool costs a rule and a prompt: `scripts/long rule-growth`, beside another checkout with `--before`."""

from __future__ import annotations

import argparse
import copy
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from ferrule.bench.tables import Table, markdown, print_table
from ferrule.core.tool import ToolDefinition
from ferrule.schema.admission_cache import admit_tools
from ferrule.wire.registry import get_format
from ferrule.wire.rule_builder import bind
from lab.environment import describe_environment, measured_environment
from lab.paths import ROOT
from lab.results_page import publish
from lab.rule_tools import sample_tools

_FORMATS: Final = ("hermes", "qwen_xml")
_TOOLS: Final = 500
_ROUNDS: Final = 2
_PARTS: Final = ("key", "bind", "fingerprint", "Lark", "tag", "GBNF", "prompt", "llguidance")
_SECTION: Final = "rule-growth"
_HEADING: Final = "What one more tool costs"
_ABOUT: Final = (
    f"CPU milliseconds for {_TOOLS} tools, of which one is new and the others were offered before, by another request "
    "with definitions of its own; auto. *key* is the key of the grammar cache, *fingerprint* the rule's in receipts, "
    "*tag* the structural tag, *prompt* a template that writes each tool as JSON, *llguidance* its compilation of the "
    "whole grammar, in which it keeps nothing of an earlier one. The least of two rounds."
)
_TEMPLATE: Final = "{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}{{ messages[0].content }}"


def _of_another_request(tools: Sequence[ToolDefinition]) -> tuple[ToolDefinition, ...]:
    return admit_tools([ToolDefinition(one.name, one.description, copy.deepcopy(one.parameters)) for one in tools])


def _steps(name: str, tools: Sequence[ToolDefinition]) -> dict[str, float]:
    from ferrule.core.request import ToolChoice
    from ferrule.rules.cache import rule_key
    from ferrule.rules.gbnf import emit_gbnf
    from ferrule.rules.lark import emit_lark
    from ferrule.rules.matcher import ByteMatcher
    from ferrule.rules.structural_tag import emit_structural_tag
    from ferrule.wire.template.chat_template import ChatTemplate

    offered = _of_another_request(tools)
    spent: dict[str, float] = {}

    def timed(part: str, work: Callable[[], Any]) -> Any:
        started = time.process_time()
        result = work()
        spent[part] = (time.process_time() - started) * 1e3
        return result

    template = ChatTemplate(_TEMPLATE)
    timed("key", lambda: rule_key(name, offered, ToolChoice.auto(), "lark"))
    rule = timed("bind", lambda: bind(get_format(name), offered))
    timed("fingerprint", lambda: rule.fingerprint)
    lark = timed("Lark", lambda: emit_lark(rule))
    timed("tag", lambda: emit_structural_tag(rule))
    timed("GBNF", lambda: emit_gbnf(rule))
    timed("prompt", lambda: template.render([{"role": "user", "content": "hello"}], _template_tools(offered)))
    timed("llguidance", lambda: ByteMatcher(lark))
    return spent


def _template_tools(tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
    try:
        from ferrule.wire.template.tool_object import template_tool
    except ImportError:
        # The other checkout may be of a time before there was such a module.
        return [tool.as_function() for tool in tools]
    return list(map(template_tool, tools))


def _measured(checkout: Path) -> dict[str, dict[str, float]]:
    path = os.pathsep.join(map(str, (checkout / "src", ROOT)))
    done = subprocess.run(
        [sys.executable, __file__, "--json"],
        env={**os.environ, "PYTHONPATH": path},
        cwd=checkout,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def measure() -> dict[str, dict[str, float]]:
    tools = sample_tools(_TOOLS + _ROUNDS)
    best: dict[str, dict[str, float]] = {}
    for name in _FORMATS:
        _steps(name, tools[: _TOOLS - 1])
        rounds = [_steps(name, (*tools[: _TOOLS - 1], tools[_TOOLS + number])) for number in range(_ROUNDS)]
        best[name] = {part: min(one[part] for one in rounds) for part in _PARTS}
    return best


def main(arguments: Sequence[str] | None = None) -> None:
    reader = argparse.ArgumentParser(prog="scripts/long rule-growth", description=(__doc__ or "").partition("\n")[0])
    reader.add_argument("--before", type=Path, help="another checkout to measure in the same run")
    reader.add_argument("--print", action="store_true", help="do not write the table to the results page")
    reader.add_argument("--json", action="store_true", help="measure the code on the path, and print JSON")
    options = reader.parse_args(arguments)
    if options.json:
        print(json.dumps(measure()))
        return
    checkouts = {**({"before": options.before.resolve()} if options.before else {}), "now": ROOT}
    rows = [
        (name, label, *(f"{spent[part]:.1f}" for part in _PARTS))
        for label, checkout in checkouts.items()
        for name, spent in _measured(checkout).items()
    ]
    table = Table(_HEADING, _ABOUT, ("format", "code", *_PARTS), sorted(rows), text_columns=2)
    print_table(table, Console(width=140))
    if not options.print:
        command = "```sh\nscripts/long rule-growth --before ../other-checkout\n```"
        publish(_SECTION, _HEADING, [command, describe_environment(measured_environment()), markdown(table)])


if __name__ == "__main__":
    main()
