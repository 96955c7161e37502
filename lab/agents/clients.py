"""How to run each agent: its command, its environment and the files of its configuration.

Each runs with its default tools, allowed to edit files and to run commands, with an empty home folder and no other
network than loopback.
"""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from lab import claude_code
from lab.paths import CACHE, ROOT
from lab.servers import end_group

_AGENTS: Final = CACHE / "agents"
SECONDS: Final = 300


@dataclass(frozen=True, slots=True)
class Command:
    """A program with its arguments, and what it needs in its environment."""

    words: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType[str, str]({}))


@dataclass(frozen=True, slots=True)
class Setup:
    """What an agent is set up with: its home folder, the server's URL, the model, and the question."""

    home: Path
    url: str
    model: str
    question: str

    def write(self, path: str, text: str) -> None:
        """Write a file of the agent's configuration into its home folder."""
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


@dataclass(frozen=True, slots=True)
class AgentClient:
    """An agent. `api` is the one that it speaks here; `command` writes its configuration into its home folder."""

    name: str
    api: str
    pins: Path
    command: Callable[[Setup], Command]
    model: str = ""
    """The name of the model that the agent is told, where its tools depend on it."""

    @property
    def label(self) -> str:
        return f"{self.name}, {self.model or self.api}"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended: the exit code, None if it had to be ended, and what it printed."""

    code: int | None
    output: str
    errors: str


def run_client(
    client: AgentClient, url: str, model: str, question: str, folder: Path, seconds: float = SECONDS
) -> Ended:
    """Run the agent once. `folder` gets its home folder; `work` in it is the folder that the agent works in."""
    home, work = folder / "home", folder / "work"
    home.mkdir(parents=True)
    work.mkdir(exist_ok=True)
    command = client.command(Setup(home, url, model, question))
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
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            # Some leave a server behind.
            end_group(process)
            _end_daemons(work)
    texts = [(folder / name).read_text(encoding="utf-8", errors="replace") for name in ("output", "errors")]
    return Ended(code, *texts)


def _end_daemons(work: Path) -> None:
    """End the processes in sessions of their own that an agent left behind: those that its folder is an argument of."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if str(work).encode() in arguments and int(process.name) != os.getpid():
            with suppress(ProcessLookupError):
                os.kill(int(process.name), signal.SIGKILL)


def _program(agent: str, name: str) -> str:
    return str(_AGENTS / agent / "node_modules" / ".bin" / name)


def _codex(*options: str) -> Callable[[Setup], Command]:
    def command(setup: Setup) -> Command:
        provider = f'name = "ferrule"\nbase_url = "{setup.url}/v1"\nwire_api = "responses"\n'
        setup.write(
            ".codex/config.toml",
            f'model = "{setup.model}"\nmodel_provider = "ferrule"\n[model_providers.ferrule]\n{provider}',
        )
        free = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
        return Command([_program("codex", "codex"), "exec", *options, *free, setup.question])

    return command


def claude_code_environment(setup: Setup) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": setup.url,
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_MODEL": setup.model,
        "ANTHROPIC_SMALL_FAST_MODEL": setup.model,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }


def _claude_code(setup: Setup) -> Command:
    allowed = ("--allowedTools", "Bash,Edit,Write")
    return Command([str(claude_code.program()), "-p", setup.question, *allowed], claude_code_environment(setup))


def _opencode(package: str) -> Callable[[Setup], Command]:
    def command(setup: Setup) -> Command:
        provider: dict[str, Any] = {
            "npm": package,
            "options": {"baseURL": f"{setup.url}/v1", "apiKey": "none"},
            "models": {setup.model: {"name": setup.model}},
        }
        config = {"autoupdate": False, "provider": {"ferrule": provider}}
        setup.write(".config/opencode/opencode.json", json.dumps(config))
        programs = sorted((_AGENTS / "opencode" / "node_modules").glob("opencode-linux-*/bin/opencode"))
        return Command([str(programs[0]), "run", "-m", f"ferrule/{setup.model}", setup.question])

    return command


def _pi(api: str) -> Callable[[Setup], Command]:
    def command(setup: Setup) -> Command:
        base = setup.url if api.startswith("anthropic") else f"{setup.url}/v1"
        provider = {"baseUrl": base, "api": api, "apiKey": "none", "models": [{"id": setup.model}]}
        setup.write(".pi/agent/models.json", json.dumps({"providers": {"ferrule": provider}}))
        return Command([_program("pi", "pi"), "-p", "--provider", "ferrule", "--model", setup.model, setup.question])

    return command


def _continue(*options: str) -> Callable[[Setup], Command]:
    def command(setup: Setup) -> Command:
        head = "name: ferrule\nversion: 1.0.0\nschema: v1\nmodels:\n"
        model = f"  - name: {setup.model}\n    provider: openai\n    model: {setup.model}\n"
        setup.write("config.yaml", f"{head}{model}    apiBase: {setup.url}/v1\n    apiKey: none\n    roles: [chat]\n")
        config = ("--config", str(setup.home / "config.yaml"))
        words = [_program("continue", "cn"), *config, *options, "-p", setup.question]
        return Command(words, {"CONTINUE_TELEMETRY_ENABLED": "0"})

    return command


def _cline(setup: Setup) -> Command:
    program = _program("cline", "cline")
    environment = {"PATH": os.environ["PATH"], "HOME": str(setup.home)}
    account = ("-p", "openai-compatible", "-k", "none", "-m", setup.model, "-b", f"{setup.url}/v1")
    subprocess.run(
        [program, "auth", *account],
        check=True,
        env=environment,
        cwd=setup.home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    return Command([program, "-P", "openai-compatible", "-m", setup.model, setup.question])


def _qwen_code(kind: str) -> Callable[[Setup], Command]:
    def command(setup: Setup) -> Command:
        prefix, url = ("ANTHROPIC", setup.url) if kind == "anthropic" else ("OPENAI", f"{setup.url}/v1")
        environment = {f"{prefix}_API_KEY": "none", f"{prefix}_BASE_URL": url, f"{prefix}_MODEL": setup.model}
        words = [_program("qwen-code", "qwen"), "--yolo", "--auth-type", kind, "-m", setup.model, "-p", setup.question]
        return Command(words, environment)

    return command


def _framework(venv: str, module: str) -> Callable[[Setup], Command]:
    def command(setup: Setup) -> Command:
        python = CACHE / "venvs" / venv / "bin" / "python"
        words = [str(python), "-m", module, setup.url, setup.model, setup.question]
        return Command(words, {"PYTHONPATH": str(ROOT)})

    return command


_CLAUDE_CODE: Final = AgentClient("Claude Code", "Messages", CACHE / "claude-code", _claude_code)
CLIENTS: Final[Sequence[AgentClient]] = (
    AgentClient("pi", "chat", _AGENTS / "pi", _pi("openai-completions")),
    _CLAUDE_CODE,
    AgentClient(
        "Codex", "Responses", _AGENTS / "codex", _codex("--disable", "multi_agent", "-c", 'web_search="disabled"')
    ),
    AgentClient("opencode", "chat", _AGENTS / "opencode", _opencode("@ai-sdk/openai-compatible")),
    AgentClient("Continue", "chat", _AGENTS / "continue", _continue("--allow", "Bash")),
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
"""The agents of the runs with faults. Codex is asked for functions only there, so that all get the same faults."""
AGENTS: Final[Sequence[AgentClient]] = (
    *(
        AgentClient("Codex", "Responses", _AGENTS / "codex", _codex(), model)
        for model in ("unknown", "gpt-5.5", "gpt-6.1-sol")
    ),
    _CLAUDE_CODE,
    AgentClient("opencode", "chat", _AGENTS / "opencode", _opencode("@ai-sdk/openai-compatible")),
    AgentClient("opencode", "Responses", _AGENTS / "opencode", _opencode("@ai-sdk/openai")),
    AgentClient("opencode", "Messages", _AGENTS / "opencode", _opencode("@ai-sdk/anthropic")),
    AgentClient("Cline", "chat", _AGENTS / "cline", _cline),
    AgentClient("Qwen Code", "chat", _AGENTS / "qwen-code", _qwen_code("openai")),
    AgentClient("Qwen Code", "Responses", _AGENTS / "qwen-code", _qwen_code("openai-responses")),
    AgentClient("Qwen Code", "Messages", _AGENTS / "qwen-code", _qwen_code("anthropic")),
    AgentClient("pi", "chat", _AGENTS / "pi", _pi("openai-completions")),
    AgentClient("pi", "Responses", _AGENTS / "pi", _pi("openai-responses")),
    AgentClient("pi", "Messages", _AGENTS / "pi", _pi("anthropic-messages")),
    AgentClient("Continue", "chat", _AGENTS / "continue", _continue("--auto")),
)
"""The coding agents, each with its default tools, and in each API that it speaks."""
