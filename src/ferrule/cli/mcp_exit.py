"""The exit codes of `ferrule mcp`, one meaning each, so that a script need not read what is printed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ferrule.sources.mcp.config import McpConfig
from ferrule.sources.mcp.servers import ServerStatus
from ferrule.sources.status import SourceState, SourceStatus

FOUND, NOT_RUN, UNKNOWN, FAILED, NEEDS_LOGIN = 1, 3, 4, 5, 6
EXIT_CODES: Mapping[int, str] = {
    0: "done: every server is ready, no definition changed, the tool answered",
    FOUND: "a definition changed (diff), the server answered with an error, or a file or an argument is wrong",
    2: "the command line is wrong",
    NOT_RUN: "the call did not run",
    UNKNOWN: "the call may have run",
    FAILED: "a server cannot be used",
    NEEDS_LOGIN: "a server waits for a login, and no other one failed",
}


def exit_code(statuses: Iterable[ServerStatus | SourceStatus], config: McpConfig) -> int:
    """The exit code for what became of the servers, and of the entries of the file."""
    states = {SourceState(status.state) for status in statuses}
    if states - {SourceState.READY, SourceState.NEEDS_LOGIN}:
        return FAILED
    if SourceState.NEEDS_LOGIN in states:
        return NEEDS_LOGIN
    return FOUND if config.faults else 0


def exit_code_text() -> str:
    """The table, for the help."""
    return "\n".join(f"  {code}  {meaning}" for code, meaning in EXIT_CODES.items())
