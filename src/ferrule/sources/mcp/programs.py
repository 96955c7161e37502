"""Says why a server's program cannot be started, and what to install. The names are those that servers' pages give."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping

from ferrule.errors import FerruleError

_NODE = "Node.js, which has npx (Debian: apt install npm; others: https://nodejs.org)"
_UV = "uv, which has uvx (pip install uv; or https://docs.astral.sh/uv)"
_INSTALL: Mapping[str, str] = {
    "npx": _NODE,
    "npm": _NODE,
    "node": _NODE,
    "pnpm": "pnpm (npm install --global pnpm)",
    "yarn": "Yarn (npm install --global yarn)",
    "bun": "Bun (npm install --global bun)",
    "bunx": "Bun (npm install --global bun)",
    "deno": "Deno (https://deno.com)",
    "uv": _UV,
    "uvx": _UV,
    "pipx": "pipx (Debian: apt install pipx)",
    "python": "Python, or write python3",
    "python3": "Python (Debian: apt install python3)",
    "docker": "Docker (https://docs.docker.com/engine/install)",
    "podman": "Podman (Debian: apt install podman)",
    "java": "a Java runtime (Debian: apt install default-jre-headless)",
    "dotnet": ".NET (https://dotnet.microsoft.com)",
    "go": "Go (https://go.dev)",
    "cargo": "Rust, which has cargo (https://rustup.rs)",
    "ruby": "Ruby (Debian: apt install ruby)",
    "bwrap": "bubblewrap (Debian: apt install bubblewrap)",
}


class ProgramError(FerruleError):
    """A server's program cannot be started. The message says why, and what to do."""

    code = "program_not_started"


def start_error(command: str, cwd: str | None, path: str, error: OSError) -> ProgramError:
    """Explain why the system did not start a program. `path` is the PATH that the program was looked for in."""
    if cwd is not None and not os.path.isdir(cwd):
        return ProgramError(f"cannot be started: its cwd {cwd!r} is not a directory")
    name = os.path.basename(command)
    if error.errno == errno.ENOENT:
        found = shutil.which(command, path=path)
        if found is not None:
            # A script whose first line names an interpreter that is not there.
            return ProgramError(f"cannot be started: the program that {found} names in its first line is missing")
        if os.sep in command:
            return ProgramError(f"cannot be started: there is no program {command!r}")
        install = _INSTALL.get(name)
        advice = f"install {install}" if install else "install it, or write its whole path as the command"
        return ProgramError(f"cannot be started: there is no program {name!r} in the PATH; {advice}")
    if error.errno == errno.EACCES:
        return ProgramError(f"cannot be started: {command!r} may not be executed; see its permissions")
    return ProgramError(f"cannot be started: {error.strerror or error}")
