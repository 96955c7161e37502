"""Plain JSON: the last resort for models that write a call without any marker, bare or in a ```json fence.

Only offered tools are called, and nothing that is quoted inside another code fence is a call.
"""

from __future__ import annotations

from dataclasses import replace

from ferrule.core.reply import Reply
from ferrule.wire.format import PARIS, ROME, Example, Format, results
from ferrule.wire.formats.hermes import JSON_CALL
from ferrule.wire.node import BODY, calls, free, lit, turn

OBJECT = calls(JSON_CALL, sep="\n", glue="\n", only_offered=True)
FENCE = calls(
    JSON_CALL,
    open=lit("```json\n", "```\n", "```tool_call\n", "```json "),
    sep="\n",
    close=lit("\n```", "```", " ```"),
    glue="\n",
    only_offered=True,
)
FENCED_ARRAY = calls(
    JSON_CALL,
    open=lit("```json\n[", "```\n["),
    sep=lit(", ", ","),
    close=lit("]\n```", "]```"),
    glue="\n",
    only_offered=True,
)

BARE = Format(
    name="bare_json",
    about="Any model: a JSON object with name and arguments in the text",
    markers=(),
    reply=turn(free(), OBJECT, fence="```"),
    result=results("<tool_response>\n", BODY, "\n</tool_response>", role="user"),
)
FENCED = replace(
    BARE,
    name="fenced_json",
    about="Any model: the same in a ```json fence",
    reply=turn(free(), FENCE, also=(FENCED_ARRAY,), fence="```"),
)
FORMATS = (BARE, FENCED)

_ROME = '{"name": "get_weather", "arguments": {"city": "Rome"}}'
EXAMPLES = (
    Example(
        "bare_json",
        'Sure.\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}\n' + _ROME,
        Reply.of("Sure.", PARIS, ROME),
    ),
    Example("bare_json", f"Like this:\n```json\n{_ROME}\n```", Reply.of(f"Like this:\n```json\n{_ROME}\n```")),
    Example("fenced_json", f"Sure.\n```json\n{_ROME}\n```", Reply.of("Sure.", ROME)),
    Example("fenced_json", f"Like this:\n```python\n{_ROME}\n```", Reply.of(f"Like this:\n```python\n{_ROME}\n```")),
)
