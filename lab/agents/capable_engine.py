"""A scripted model that can do the task of `lab.agents.task`, behind Ferrule's text path and under the real matcher.

    python -m lab.agents.capable_engine serve --engine m=capable:PATH

is `ferrule serve` with this engine; PATH is a GGUF file, of which only the tokenizer and the chat template are used.
The model reads the prompt as the engine rendered it: the tools, the task and the results so far. It chooses the tools
and their arguments as a capable model does, by names and schemas, and writes the reply token by token under the
request's grammar (`lab.whole_calls.echo`). Where the grammar forbids what it wants to write, the request fails.
"""

import json
import re
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

from ferrule.cli.main import main
from ferrule.core.call import ToolCall
from ferrule.core.reply import Reply
from ferrule.core.tool import ToolDefinition
from ferrule.engines.checkpoint.gguf import read_metadata, vocabulary_of
from ferrule.engines.fake import FakeGenerator
from ferrule.engines.generator import CompletionEnd, CompletionRequest, Piece
from ferrule.engines.llama import facts_of_file
from ferrule.engines.registry import ENGINES, _EngineEntry  # pyright: ignore[reportPrivateUsage]
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.errors import EngineError
from ferrule.formats import render
from ferrule.rules.matcher import compile_matcher
from ferrule.wire.formats.hermes import HERMES
from lab.agents.task import DONE, Task, read_task
from lab.whole_calls.echo import tokens_of

_RESULT: Final = "<tool_response>"
_TEXT: Final = "input"
_NOTHING: Final = "Nothing to do."
_SHELLS: Final = ("bash", "run_commands", "run_shell_command", "exec_command", "exec")
_EDITORS: Final = ("edit", "editor", "apply_patch")
_READERS: Final = ("read", "read_files", "read_file")


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the model reads: the tools that it is offered, what it is asked, and how many results it already has."""

    tools: Mapping[str, ToolDefinition]
    text: str
    results: int


def read_prompt(prompt: str) -> Prompt:
    """Read a prompt of Qwen's own template."""
    head, _, _ = prompt.partition("\n</tools>\n")
    lines = [line for line in head.rpartition("<tools>\n")[2].splitlines() if line.startswith('{"type": "function"')]
    functions: list[dict[str, Any]] = [json.loads(line)["function"] for line in lines]
    tools = {
        one["name"]: ToolDefinition(one["name"], one.get("description", ""), one.get("parameters") or {})
        for one in functions
    }
    task = read_task(prompt)
    return Prompt(tools, prompt, prompt.count(_RESULT, task.end) if task else 0)


def next_reply(prompt: Prompt) -> Reply:
    """What a capable model answers: it reads the file, edits it, runs the command, and says that it is done."""
    task = read_task(prompt.text)
    if task is None or not prompt.tools:
        return Reply.of(_NOTHING)
    edit = {"path": task.path, "old": task.old, "new": task.new, "patch": _patch(task, prompt.text)}
    wishes: Sequence[tuple[Sequence[str], dict[str, str]]] = (
        (_READERS, {"path": task.path, "command": f"cat {task.path}"}),
        (_EDITORS, {**edit, "command": f"sed -i s/{task.old}/{task.new}/ {task.path}"}),
        (_SHELLS, {"command": task.command}),
    )
    if prompt.results >= len(wishes):
        return Reply.of(DONE)
    names, wish = wishes[prompt.results]
    tool = _find_tool(prompt.tools, names) or _find_tool(prompt.tools, _SHELLS)
    if tool is None:
        raise EngineError(f"no tool for {wish}", hint=f"Offered: {', '.join(prompt.tools)}.", code="no_tool")
    return Reply.of(ToolCall.of(tool.name, _arguments(tool, wish)))


def _patch(task: Task, prompt: str) -> str:
    """The edit in the form of Codex's `apply_patch`. The line is taken from what the model has read of the file."""
    lines = [line for line in prompt[task.end :].splitlines() if re.search(rf"\b{task.old}\b", line)]
    line = lines[-1] if lines else task.old
    changed = line.replace(task.old, task.new)
    head = f"*** Begin Patch\n*** Update File: {Path(task.path).name}\n"
    return f"{head}@@\n-{line}\n+{changed}\n*** End Patch\n"


def _find_tool(tools: Mapping[str, ToolDefinition], names: Sequence[str]) -> ToolDefinition | None:
    return next((tool for name in names for tool in tools.values() if _last_name(tool) == name), None)


def _last_name(tool: ToolDefinition) -> str:
    """The name without the namespace that Codex has some tools in."""
    return tool.name.rpartition("__")[2].lower()


# How tools call what the model has to say. The first words are this module's own.
_WORDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("path", "file_path", "filePath", "filepath"), "path"),
    **dict.fromkeys(("old", "old_string", "oldString", "old_text", "oldText"), "old"),
    **dict.fromkeys(("new", "new_string", "newString", "new_text", "newText"), "new"),
    **dict.fromkeys(("command", "cmd", "commands"), "command"),
}
# Values of arguments that are required beside these.
_FILLER: Final[Mapping[str, Any]] = {"string": "A step of the task", "boolean": False, "integer": 1, "number": 1}


def _arguments(tool: ToolDefinition, wish: Mapping[str, str]) -> dict[str, Any]:
    if [*tool.properties] == [_TEXT]:
        # A tool that takes a text: a patch, or a script that calls Codex's own tools.
        command = json.dumps({"cmd": wish["command"]})
        script = f"const result = await tools.exec_command({command});\ntext(result.output);\n"
        return {_TEXT: script if _last_name(tool) == "exec" else wish["patch"]}
    return cast("dict[str, Any]", _value(tool.parameters, wish))


def _value(schema: Mapping[str, Any], wish: Mapping[str, str], word: str = "") -> Any:
    """A value of the schema that says the wish, in the order of its properties."""
    if word and schema.get("type") != "array":
        return wish[word]
    if schema.get("type") == "array":
        return [_value(schema["items"], wish, word)]
    if schema.get("type") != "object":
        return schema["enum"][0] if "enum" in schema else _FILLER[schema.get("type", "string")]
    required: Sequence[str] = schema.get("required", ())
    value: dict[str, Any] = {}
    for name, inner in schema.get("properties", {}).items():
        known = _WORDS.get(name, "")
        if known in wish:
            value[name] = _value(inner, wish, known)
        elif name in required:
            value[name] = _value(inner, wish)
    return value


class CapableGenerator(FakeGenerator):
    """Continues each prompt with what `next_reply` says, under the request's grammar."""

    def __init__(self, path: Path) -> None:
        # It counts no tokens, and takes a prompt of any length.
        super().__init__([], replace(facts_of_file(path), context=0))
        self._vocabulary = vocabulary_of(read_metadata(path))

    async def generate(self, request: CompletionRequest) -> AsyncGenerator[Piece | CompletionEnd, None]:
        prompt = read_prompt(request.prompt)
        text = render(HERMES, next_reply(prompt), prompt.tools.values())
        if request.grammar is None:
            yield Piece(text)
            yield CompletionEnd(False, 1, 1)
            return
        matcher = compile_matcher(self._vocabulary, request.grammar.text)
        held, count = b"", 0
        for token in tokens_of(text, "", self._vocabulary, matcher):
            if count == request.max_tokens:
                yield CompletionEnd(True, 1, count)
                return
            count += 1
            held += self._vocabulary.tokens[token]
            try:
                piece, held = held.decode(), b""
            except UnicodeDecodeError:
                continue
            yield Piece(piece)
        if not matcher.may_end:
            raise EngineError(f"the grammar does not let the reply end after {text[-80:]!r}", code="bent")
        yield CompletionEnd(False, 1, count)


def capable(path: str) -> TextEngine:
    return TextEngine(CapableGenerator(Path(path)), TextOptions(format=HERMES))


if __name__ == "__main__":
    ENGINES["capable"] = _EngineEntry(factory=capable, argument="PATH")
    sys.exit(main(sys.argv[1:]))
