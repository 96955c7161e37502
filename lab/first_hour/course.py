"""What a newcomer does in the first hour, page by page. Every command comes from the page, or from what it printed."""

import json
import re
import time
import urllib.request
from typing import Any, Final
from urllib.parse import urljoin

from lab.first_hour.desk import Desk, Step, check_shows
from lab.first_hour.pages import read_page
from lab.first_hour.terminal import COLUMNS, CTRL_C, ENTER, CommandFailedError, Terminal, wait_until
from lab.paths import CACHE
from lab.servers import QWEN

URL: Final = "http://127.0.0.1:8000"
PI_NOTE: Final = (
    "pi is asked with `-p`, offline, and each reply for it has at most 256 tokens, because a model of this size "
    "may not end by itself."
)
_RECEIPT: Final = "grammar by llama (completion+lark); enforced additionalProperties, properties, required, type"
PI_PROGRAM: Final = CACHE / "agents" / "pi" / "node_modules" / ".bin" / "pi"
_INSTALL: Final = ("pip install", "pip download", "python -m zipfile")

README: Final = read_page("README.md", "Five minutes")
CALL, LOOP, APPROVAL, AGENT = (
    read_page(f"docs/tutorial/{name}.md") for name in ("first-call", "first-loop", "first-approval", "your-agent")
)
INIT, CHAT, CONSOLE, PI = (read_page(f"docs/how-to/{name}.md") for name in ("init", "chat", "console", "clients/pi"))
PAGES: Final = (README, CALL, LOOP, APPROVAL, INIT, CHAT, AGENT)
"""The pages of which every command is run."""


def commands_not_run(steps: list[Step]) -> list[str]:
    """The commands of the pages that no step ran. What the README and a tutorial page both print is run once."""
    ran = {step.command for step in steps}
    return [f"{page.name}: {command}" for page in PAGES for command in page.commands if command not in ran]


def follow_tutorial(desk: Desk) -> None:
    """The README's quick start and the first three pages of the tutorial."""
    for beginning in _INSTALL:
        desk.run(README, beginning)
    desk.save(README, "first_call.py")
    desk.run(README, "python first_call.py", "get_weather {'city': 'Paris'}", _RECEIPT, "Paris: sunny")
    desk.note_call()
    desk.run(README, "ferrule chat")

    desk.save(CALL, "first_call.py")
    desk.run(CALL, "python first_call.py", "get_weather {'city': 'Paris'}", _RECEIPT, "Paris: sunny")
    desk.run(CALL, "ferrule chat", 'get_weather {"city": "Rome"}', _RECEIPT, "get_weather returned Rome: sunny")

    desk.save(LOOP, "first_loop.py")
    desk.run(LOOP, "python first_loop.py", *LOOP.commands["python first_loop.py"].splitlines())

    desk.save(APPROVAL, "first_approval.py")
    _approve(desk)


def _approve(desk: Desk) -> None:
    program = APPROVAL.command("python first_approval.py")
    desk.run(APPROVAL, program, "state: waiting")
    if (desk.folder / "notebook.txt").exists():
        raise CommandFailedError("the tool ran before its approval")
    listed = desk.run(APPROVAL, "ferrule approvals list", 'pending  note_down  {"text":"buy bread"}')
    (printed,) = set(re.findall(r"\b[0-9a-f]{32}\b", APPROVAL.text))
    own = {printed: listed.split()[0]}
    shown = ("state:        pending", "conversation: notes-1", 'arguments:    {"text":"buy bread"}')
    desk.run(APPROVAL, "ferrule approvals show", *shown, replaced=own)
    approve = APPROVAL.command("ferrule approvals approve")
    desk.run_text(APPROVAL, approve, replaced=own)
    desk.run(APPROVAL, program, "state: done")
    desk.run(APPROVAL, "cat notebook.txt", "buy bread")
    refused = "error: the approval was already decided: it is redeemed"
    APPROVAL.check_has(refused)
    desk.run_text(APPROVAL, approve, refused, replaced=own, status=1)
    desk.run(APPROVAL, "ferrule trace", "approved by ann", "note_down returned: noted", "2 processes in turn")


def follow_init(desk: Desk) -> None:
    """`ferrule init` with the model that it downloads, its gateway, the openai SDK, the console, and the chat."""
    desk.run(INIT, 'pip install "ferrule')
    desk.run(INIT, "mkdir")
    with desk.interact(INIT, INIT.command("ferrule init")) as terminal:
        for question, answer in (("Instruct-GGUF]: ", ""), ("[example]: ", ""), ("[curl]: ", "openai")):
            terminal.wait_for(question)
            terminal.type(answer + ENTER)
    printed = desk.steps[-1].output
    check_shows(INIT, "ferrule init", printed, ("wrote ferrule.toml, tools.py, client.py", "Nothing to change."))
    desk.note_call()

    with desk.serve(INIT, _printed_command(printed, "ferrule serve"), f"serving on {URL}"):
        answer = json.loads(desk.run_text(INIT, _printed_command(printed, "curl")))
        _check_notes_read(answer)
        desk.run(INIT, "pip install openai")
        client = _printed_command(printed, "python client.py")
        desk.run_text(INIT, client)
        _open_console(desk, conversations=2)
        _chat(desk)


def _printed_command(output: str, beginning: str) -> str:
    """The command that `ferrule init` printed."""
    (line,) = [line.strip() for line in output.splitlines() if line.startswith(f"  {beginning}")]
    INIT.check_has(beginning)
    return line


def _check_notes_read(answer: dict[str, Any]) -> None:
    text = json.dumps(answer)
    for wanted in ('"read_notes"', '"grammar"', "There are no notes yet."):
        if wanted not in text:
            raise CommandFailedError(f"the gateway's answer has no {wanted}: {text}")


def _open_console(desk: Desk, conversations: int) -> None:
    """The console's page and its scripts, and the list of traces that it reads."""
    CONSOLE.check_has(f"{URL}/console/")
    started = time.monotonic()
    page = _get(f"{URL}/console/").decode()
    for name in re.findall(r'(?:src|href)="(?!data:|https?:)([^"]+)"', page):
        _get(urljoin(f"{URL}/console/", name))
    wait_until(lambda: len(_traces()) >= conversations, f"{conversations} traces in the console")
    seconds = time.monotonic() - started
    output = f"status 200; {conversations} traces"
    desk.steps.append(Step(CONSOLE.name, f"open {URL}/console/", seconds, seconds, output))


def _traces() -> list[dict[str, Any]]:
    return json.loads(_get(f"{URL}/v1/traces"))["data"]


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=30) as response:
        return response.read()


def _chat(desk: Desk) -> None:
    desk.run(CHAT, "pip install")
    with desk.interact(CHAT, CHAT.command("ferrule chat --engine hf:")) as terminal:
        banner = terminal.wait_for("twice leaves.")
        for line in ("model     hf:", "add_note*", "(* has side effects)", "/approve all"):
            check_shows(CHAT, terminal.command, banner, (line,))
        terminal.wait_for("\n>")
        terminal.type(f"Use add_note to add this note: buy bread{ENTER}")
        terminal.wait_for("[y/N/a]")
        terminal.type(f"y{ENTER}")
        terminal.wait_for("add_note returned")
        _leave(terminal)
    if max(map(len, banner.splitlines())) > COLUMNS:
        raise CommandFailedError(f"the banner of the chat is wider than {COLUMNS} columns:\n{banner}")
    if "bread" not in (desk.folder / "notes.txt").read_text(encoding="utf-8"):
        raise CommandFailedError("the approved call did not write the note")
    with desk.interact(CHAT, CHAT.command("ferrule chat --url")) as terminal:
        terminal.wait_for("twice leaves.")
        terminal.wait_for("\n>")
        terminal.type(f"What is in my notes?{ENTER}")
        terminal.wait_for("waiting for the model")
        _leave(terminal)
    desk.run(CHAT, "ferrule chat --engine fake:Hello.", "Hello.")
    desk.run(CHAT, "printf", "Yes.")


def _leave(terminal: Terminal) -> None:
    """Stop the answer, which a small model may never end, and leave the chat."""
    time.sleep(5)
    terminal.type(CTRL_C)
    time.sleep(1)
    terminal.type(f"/exit{ENTER}")


def follow_agent(desk: Desk) -> None:
    """A coding agent's configuration, its gateway, and pi on it."""
    desk.folder = desk.folder / "agent" if desk.folder.name == "desk" else desk.folder.parent / "agent"
    desk.folder.mkdir()
    (desk.folder / "model.gguf").symlink_to(QWEN)
    desk.run(AGENT, "pip install")
    with desk.interact(AGENT, AGENT.command("ferrule init")) as terminal:
        terminal.wait_for("[example]: ")
        AGENT.check_has("press Enter")
        terminal.type(ENTER)
    promised = ("wrote ferrule.toml, tools.py, opencode.json", "Nothing to change.")
    check_shows(AGENT, "ferrule init", desk.steps[-1].output, promised)
    with desk.serve(AGENT, AGENT.command("ferrule serve"), f"console {URL}/console/"):
        desk.save(AGENT, "ask.py")
        desk.run(AGENT, "python ask.py", "guaranteed by grammar", "ended with tool_calls")
        _ask_pi(desk)
        _open_console(desk, conversations=2)
        (trace,) = json.loads(desk.run(AGENT, "curl -s"))["data"]
        # One with the call, and one with its result.
        if trace["status"] != "completed" or trace["request_count"] < 2:
            raise CommandFailedError(f"pi made no call, or its trace is not whole: {trace}")
        shown = desk.run(AGENT, "ferrule trace", replaced={"TRACE": trace["id"]})
        check_shows(AGENT, "ferrule trace", shown, ("completed",))


def _ask_pi(desk: Desk) -> None:
    """pi with its page's configuration. `-p` and a question make it answer once, where a person would type it."""
    (config,) = re.findall(r"^```json\n(.*?)^```$", PI.text, re.MULTILINE | re.DOTALL)
    (command,) = re.findall(r"`(pi --provider [^`]+)`", PI.text)
    file = desk.home / ".pi" / "agent" / "models.json"
    file.parent.mkdir(parents=True)
    settings = json.loads(config)
    settings["providers"]["ferrule"]["models"][0]["maxTokens"] = 256
    file.write_text(json.dumps(settings), encoding="utf-8")
    (desk.folder / "greeting.txt").write_text("hello from a file\n", encoding="utf-8")
    desk.environment |= {
        "PATH": f"{desk.environment['PATH']}:{PI_PROGRAM.parent}",
        "PI_OFFLINE": "1",
        "PI_TELEMETRY": "0",
    }
    desk.run_text(PI, f'{command} -p "Read greeting.txt and say what is in it."')
