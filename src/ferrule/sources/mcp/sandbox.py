"""Sandbox: what a server process may read, write and reach, and the bubblewrap command that holds it to that.

The server gets namespaces of its own: no network, no other processes, and a file system in which only these exist:

- the system's programs and libraries, and the few files of /etc that programs need, read-only: no password hashes and
  no keys, which the server could read if this process is root;
- the directories that the configuration names, `readable` or `writable`;
- a scratch directory in memory, /tmp, which is also its home, and is gone with the server.

It has no capabilities, and is never root in its namespace. /proc/sys and the other places in /proc that set up the
kernel are mounted read-only. bubblewrap does that by itself only without a user namespace, and a server that is root
outside could write there.

Must not know MCP.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from ferrule.errors import DefinitionError
from ferrule.sources.mcp.programs import ProgramError

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt")
_ETC = (
    *("alternatives", "ca-certificates", "ca-certificates.conf", "group", "host.conf", "hosts", "ld.so.cache"),
    *("ld.so.conf", "ld.so.conf.d", "localtime", "mime.types", "nsswitch.conf", "passwd", "pki/tls/certs"),
    *("resolv.conf", "ssl/certs", "ssl/openssl.cnf", "timezone"),
)
_KERNEL = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus")
_NOBODY = "65534"
_SCRATCH_BYTES = 256 * 1024 * 1024
_HOME = "/tmp/home"
_PROGRAM = "bwrap"


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What a sandboxed server may do beside computing. Paths are absolute directories or files that exist."""

    network: bool = False
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()


def read_sandbox(value: object) -> Sandbox | None:
    """Read the key `sandbox`: true, or `{"readable": ["/srv/docs"], "writable": ["/srv/out"], "network": false}`."""
    if value is None or value is False:
        return None
    if value is True:
        return Sandbox()
    if not isinstance(value, dict):
        raise DefinitionError('"sandbox" must be true, or an object such as {"readable": ["/srv/docs"]}')
    entry = cast("dict[str, Any]", value)
    unknown = entry.keys() - {"network", "readable", "writable"}
    if unknown:
        raise DefinitionError(f'"sandbox" has an unknown key {min(unknown)!r}')
    network = entry.get("network", False)
    if not isinstance(network, bool):
        raise DefinitionError('"network" of "sandbox" must be true or false')
    return Sandbox(network, _paths(entry, "readable"), _paths(entry, "writable"))


def sandbox_command(
    sandbox: Sandbox, command: str, arguments: tuple[str, ...], cwd: str | None, environment: Mapping[str, str]
) -> list[str]:
    """Return the command that runs a program in a sandbox. Raises `ProgramError` if it cannot run there."""
    path = environment.get("PATH", os.defpath)
    bubblewrap = shutil.which(_PROGRAM, path=path) or shutil.which(_PROGRAM, path=os.defpath)
    if bubblewrap is None:
        raise ProgramError(
            'cannot be started: its "sandbox" needs the program bwrap; install bubblewrap (Debian: apt install '
            'bubblewrap), or remove "sandbox" from its entry'
        )
    named = (*sandbox.readable, *sandbox.writable)
    for one in named:
        if not os.path.exists(one):
            raise ProgramError(f"cannot be started: the path {one!r} of its sandbox does not exist")
    program = shutil.which(command, path=path)
    if program is not None and not _is_inside(program, (*_SYSTEM, *named)):
        raise ProgramError(
            f'cannot be started: {program} is not in its sandbox; name its directory in "readable" of "sandbox"'
        )
    if cwd is not None and not _is_inside(cwd, (*_SYSTEM, *named)):
        raise ProgramError(f'cannot be started: its cwd {cwd!r} is not in its sandbox; name it in "readable"')
    return [
        bubblewrap,
        *("--unshare-user", "--unshare-all", *(["--share-net"] if sandbox.network else [])),
        *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
        # Root outside stays the owner of what it is given, but is nobody inside.
        *(["--uid", _NOBODY, "--gid", _NOBODY] if os.getuid() == 0 else []),
        *_mounts(sandbox),
        *("--setenv", "HOME", _HOME, "--setenv", "TMPDIR", "/tmp", "--chdir", cwd or _HOME),
        *("--", command, *arguments),
    ]


def _mounts(sandbox: Sandbox) -> list[str]:
    mounts: list[str] = []
    for one in _SYSTEM:
        if os.path.islink(one):
            mounts += ["--symlink", os.readlink(one), one]
        else:
            mounts += ["--ro-bind-try", one, one]
    for name in _ETC:
        mounts += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    mounts += ["--dev", "/dev", "--proc", "/proc"]
    for one in _KERNEL:
        mounts += ["--ro-bind-try", one, one]
    mounts += ["--size", str(_SCRATCH_BYTES), "--tmpfs", "/tmp", "--dir", _HOME]
    # Outer directories first, so that one inside of another can have other rights.
    named = {**dict.fromkeys(sandbox.readable, "--ro-bind"), **dict.fromkeys(sandbox.writable, "--bind")}
    for one in sorted(named):
        mounts += [named[one], one, one]
    # The directories that were made for these.
    return [*mounts, "--remount-ro", "/"]


def _is_inside(path: str, directories: tuple[str, ...]) -> bool:
    """Whether a path is in one of the directories, and what it links to as well."""
    whole = (os.path.abspath(path), os.path.realpath(path))
    return all(
        any(one == folder or one.startswith(f"{folder.rstrip('/')}/") for folder in directories) for one in whole
    )


def _paths(entry: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value: object = entry.get(key, [])
    if not isinstance(value, list) or not all(isinstance(one, str) for one in cast("list[object]", value)):
        raise DefinitionError(f'"{key}" of "sandbox" must be a list of paths, such as ["/srv/docs"]')
    paths = tuple(os.path.expanduser(one) for one in cast("list[str]", value))
    for one in paths:
        top = "/".join(os.path.normpath(one).split("/")[:2])
        if not os.path.isabs(one) or top in ("/", "/proc", "/sys", "/dev"):
            raise DefinitionError(f'"{key}" of "sandbox" must name absolute paths, and not {one!r}')
    return tuple(map(os.path.normpath, paths))
