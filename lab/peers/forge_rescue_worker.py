"""forge-guardrails' rescue of calls in text. Runs in the interpreter of its venv, which does not have Ferrule.

Reads lines of JSON with a text and the names of the offered tools; writes for each the calls that were rescued.
"""

import importlib
import json
import sys
from typing import Any

templates: Any = importlib.import_module("forge.prompts.templates")

for line in sys.stdin:
    reply = json.loads(line)
    calls = templates.rescue_tool_call(reply["text"], reply["tools"])
    print(json.dumps([[call.tool, call.args] for call in calls]))
