"""The files that `ferrule init` writes: their texts, and how they are written without replacing anything.

It knows neither the terminal nor the gateway.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ferrule.errors import DefinitionError

CONFIG_FILE, TOOLS_FILE = "ferrule.toml", "tools.py"
MODEL = "local"
"""The name of the engine, and so of the model that clients ask for."""
QUESTION = "What is in my notes?"
FIRST_CALL = {
    "tool_choice_policy": "required_first_hop",
    "ferrule": {"tools": ["read_notes"]},
    "max_tokens": 128,
}
"""A request with it makes one right call before its answer and ends soon, also if the model is weak."""

TOOLS = '''"""The gateway's tools. Each is a function: its type hints and its docstring are what the model reads."""

from pathlib import Path

from ferrule import tool

NOTES = Path(__file__).with_name("notes.txt")


@tool
def read_notes() -> str:
    """Read all notes of the user."""
    return NOTES.read_text(encoding="utf-8") if NOTES.exists() else "There are no notes yet."


# It has side effects: each call waits until you approve it, in the console or with `ferrule approvals`.
@tool(side_effects=True)
def add_note(text: str) -> str:
    """Add a line to the notes of the user."""
    with NOTES.open("a", encoding="utf-8") as notes:
        notes.write(f"{text}\\n")
    return "added"
'''
_OPENAI = '''"""Asks the gateway, which runs its own tools. It needs the package: pip install openai"""

from openai import OpenAI

client = OpenAI(base_url={url}, api_key="none")
answer = client.chat.completions.create(
    model="{model}",
    messages=[{{"role": "user", "content": {question}}}],
    # A call of read_notes comes first, also from a weak model; the answer is short. Without it the model decides.
    extra_body={first_call},
)
print(answer.choices[0].message.content)
'''
_CLAUDE_CODE = """# Read it in a shell, then start Claude Code there: . ./claude-code.sh && claude
export ANTHROPIC_BASE_URL={url}
export ANTHROPIC_API_KEY=none
export ANTHROPIC_MODEL={model}
"""
_CODEX = """# Codex reads it if CODEX_HOME is this folder. You can also copy the lines into ~/.codex/config.toml.
model = "{model}"
model_provider = "ferrule"

[model_providers.ferrule]
name = "ferrule"
base_url = {url}
wire_api = "responses"
"""


@dataclass(frozen=True, slots=True)
class Client:
    """A client of the gateway. `text` makes its file from the gateway's URL; `command` starts it.

    `context` is how many tokens its prompt, its tools and some files need; 0 if it sends only what you write.
    """

    name: str
    file: str = ""
    text: Callable[[str], str] = str
    command: str = ""
    context: int = 0
    slots: int = 1


def _openai(url: str) -> str:
    question, first_call = json.dumps(QUESTION), json.dumps(FIRST_CALL)
    return _OPENAI.format(url=json.dumps(f"{url}/v1"), model=MODEL, question=question, first_call=first_call)


def _opencode(url: str) -> str:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "none"},
        "models": {MODEL: {"name": MODEL}},
    }
    whole = {"$schema": "https://opencode.ai/config.json", "provider": {"ferrule": provider}}
    return json.dumps(whole, indent=2) + "\n"


CLIENTS = {
    client.name: client
    for client in (
        Client("curl"),
        Client("openai", "client.py", _openai, "python client.py"),
        Client(
            "claude-code",
            "claude-code.sh",
            lambda url: _CLAUDE_CODE.format(url=url, model=MODEL),
            ". ./claude-code.sh && claude",
            context=32_768,
        ),
        Client(
            "codex",
            "codex/config.toml",
            lambda url: _CODEX.format(url=toml_string(f"{url}/v1"), model=MODEL),
            'CODEX_HOME="$PWD/codex" codex',
            context=32_768,
        ),
        # It asks for a title beside the first message.
        Client("opencode", "opencode.json", _opencode, f"opencode -m ferrule/{MODEL}", context=16_384, slots=2),
    )
}


def config_text(engine: str, functions: str, port: int, options: Mapping[str, int]) -> str:
    """The text of ferrule.toml. `options` are those of the engine that its string does not have."""
    more = "".join(f"{name} = {value}\n" for name, value in options.items())
    return (
        "# Every setting: `ferrule config settings`. What would be served: `ferrule config check`.\n"
        f'\n[server]\nport = {port}\nledger = "ferrule.db"\n'
        f"\n[engines.{MODEL}]\nuse = {toml_string(engine)}\n{more}"
        f"\n[sources]\nfunctions = [{toml_string(functions)}]\n"
    )


def toml_string(text: str) -> str:
    """A text as TOML writes it. Every character survives."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DefinitionError(f"{text!r} is not UTF-8", hint="Write it with characters of UTF-8.") from None
    # JSON's escapes are TOML's too. Only TOML escapes this one.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def refuse_existing(names: Iterable[str]) -> None:
    """Raise a `DefinitionError` that names the files that are there already."""
    # A link that leads nowhere is there too.
    existing = [name for name in names if os.path.lexists(name)]
    if existing:
        hint = "Nothing was written. Use another folder, or --force to replace them."
        if TOOLS_FILE in existing:
            hint += f" --tools {TOOLS_FILE} uses your own."
        raise DefinitionError(f"already here: {', '.join(existing)}", code="file_exists", hint=hint)


def write_files(files: Mapping[str, str], *, replaces: bool) -> None:
    """Write all files or none. With `replaces`, files of these names are replaced; what a link leads to is kept."""
    created: list[Path] = []
    try:
        if not replaces:
            refuse_existing(files)
        for name in files:
            _check_place(Path(name))
        for name, text in files.items():
            path = Path(name)
            path.parent.mkdir(exist_ok=True)
            # Nothing is replaced before everything is written: a full disk takes no file away.
            target = path.with_name(f".{path.name}.new") if replaces else path
            with target.open("x", encoding="utf-8") as file:
                created.append(target)
                file.write(text)
        if replaces:
            for target, name in zip(created, files, strict=True):
                target.replace(name)
    except OSError as error:
        for path in created:
            path.unlink(missing_ok=True)
        where = f"{error.filename}: " if error.filename else ""
        raise DefinitionError(
            f"the files cannot be written: {where}{error.strerror}",
            code="file_not_written",
            hint="Use a folder in which you may write.",
        ) from error


def _check_place(path: Path) -> None:
    """Raise if no file can be at the path, or if it is below a link: that may lead into the home folder."""
    hint = "Nothing was written. Move it, or use another folder."
    if path.is_dir() and not path.is_symlink():
        raise DefinitionError(f"{path} is a folder", hint=hint)
    if path.parent.is_symlink():
        raise DefinitionError(f"{path.parent} is a link, which may lead out of this folder", hint=hint)
    if path.parent.exists() and not path.parent.is_dir():
        raise DefinitionError(f"{path.parent} is no folder", hint=hint)
