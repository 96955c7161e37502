"""How to run each agent: its command, its environment and the files of its configuration.

Each runs with its default tools, allowed to run commands, with an empty home folder and no other network than loopback.
"""

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from lab import claude_code
from lab.paths import CACHE, ROOT
from lab.servers import end_group

QUESTION: Final = "Make the file right.txt with touch, then say that the work is done."
_AGENTS: Final = CACHE / "agents"
_SECONDS: Final = 300


@dataclass(frozen=True, slots=True)
class Command:
    """A program with its arguments, and what it needs in its environment."""

    words: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType[str, str]({}))


@dataclass(frozen=True, slots=True)
class AgentClient:
    """An agent. `api` is the one that it speaks here; `command` writes its configuration into its home folder."""

    name: str
    api: str
    pins: Path
    command: Callable[[Path, str, str], Command]
    """Of its home folder, the server's URL and the model."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended: the exit code, None if it had to be ended, and what it printed."""

    code: int | None
    output: str
    errors: str


def run_client(client: AgentClient, url: str, model: str, folder: Path) -> Ended:
    """Run the agent once. `folder` gets its home folder and its working folder `work`."""
    home, work = folder / "home", folder / "work"
    home.mkdir(parents=True)
    work.mkdir()
    command = client.command(home, url, model)
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "TERM": "dumb", "NO_COLOR": "1"}
    with (folder / "output").open("w+b") as output, (folder / "errors").open("w+b") as errors:
        process = subprocess.Popen(
            [*command.words],
            cwd=work,
            env={**environment, **command.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        try:
            code = process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            # Some leave a server behind.
            end_group(process)
    texts = [(folder / name).read_text(encoding="utf-8", errors="replace") for name in ("output", "errors")]
    return Ended(code, *texts)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _program(agent: str, name: str) -> str:
    return str(_AGENTS / agent / "node_modules" / ".bin" / name)


def _codex(home: Path, url: str, model: str) -> Command:
    provider = f'name = "ferrule"\nbase_url = "{url}/v1"\nwire_api = "responses"\n'
    _write(
        home / ".codex" / "config.toml",
        f'model = "{model}"\nmodel_provider = "ferrule"\n[model_providers.ferrule]\n{provider}',
    )
    # The gateway takes neither namespaces nor web search.
    plain = ("--disable", "multi_agent", "-c", 'web_search="disabled"')
    free = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
    return Command([_program("codex", "codex"), "exec", *plain, *free, QUESTION])


def _claude_code(home: Path, url: str, model: str) -> Command:
    environment = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_MODEL": model,
        "ANTHROPIC_SMALL_FAST_MODEL": model,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    return Command([str(claude_code.program()), "-p", QUESTION, "--allowedTools", "Bash"], environment)


def _opencode(home: Path, url: str, model: str) -> Command:
    provider: dict[str, Any] = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "none"},
        "models": {model: {"name": model}},
    }
    config = {"autoupdate": False, "provider": {"ferrule": provider}}
    _write(home / ".config" / "opencode" / "opencode.json", json.dumps(config))
    programs = sorted((_AGENTS / "opencode" / "node_modules").glob("opencode-linux-*/bin/opencode"))
    return Command([str(programs[0]), "run", "-m", f"ferrule/{model}", QUESTION])


def _pi(home: Path, url: str, model: str) -> Command:
    provider = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": "none", "models": [{"id": model}]}
    _write(home / ".pi" / "agent" / "models.json", json.dumps({"providers": {"ferrule": provider}}))
    return Command([_program("pi", "pi"), "-p", "--provider", "ferrule", "--model", model, QUESTION])


def _continue(home: Path, url: str, model: str) -> Command:
    fields = f"name: {model}\n    provider: openai\n    model: {model}\n    apiBase: {url}/v1\n    apiKey: none"
    _write(
        home / "config.yaml", f"name: ferrule\nversion: 1.0.0\nschema: v1\nmodels:\n  - {fields}\n    roles: [chat]\n"
    )
    words = [_program("continue", "cn"), "--config", str(home / "config.yaml"), "--allow", "Bash", "-p", QUESTION]
    return Command(words, {"CONTINUE_TELEMETRY_ENABLED": "0"})


def _framework(venv: str, module: str) -> Callable[[Path, str, str], Command]:
    def command(home: Path, url: str, model: str) -> Command:
        python = CACHE / "venvs" / venv / "bin" / "python"
        return Command([str(python), "-m", module, url, model, QUESTION], {"PYTHONPATH": str(ROOT)})

    return command


CLIENTS: Final[Sequence[AgentClient]] = (
    AgentClient("pi", "chat", _AGENTS / "pi", _pi),
    AgentClient("Claude Code", "Messages", CACHE / "claude-code", _claude_code),
    AgentClient("Codex", "Responses", _AGENTS / "codex", _codex),
    AgentClient("opencode", "chat", _AGENTS / "opencode", _opencode),
    AgentClient("Continue", "chat", _AGENTS / "continue", _continue),
    AgentClient(
        "LangChain",
        "chat",
        CACHE / "venvs" / "agent-langchain",
        _framework("agent-langchain", "lab.agents.langchain_program"),
    ),
    AgentClient(
        "OpenAI Agents SDK",
        "Responses",
        CACHE / "venvs" / "client-agents",
        _framework("client-agents", "lab.agents.agents_sdk_program"),
    ),
)
