"""The tests that take too long for CI, and what pytest said of them at the end: `scripts/long tests`."""

import re
import subprocess
import sys
from typing import Final

from lab.environment import circumstances, told
from lab.paths import ROOT
from lab.results_page import publish

_COMMAND: Final = "```sh\nscripts/long tests\n```"
_ABOUT: Final = (
    "Tests marked `long`: what CI runs a part of, or not at all, since the small model reads a hundred tokens a second."
)
_CLOSING: Final = re.compile(r"^=+ (.* in [0-9.]+s.*?) =+$", re.MULTILINE)


def main() -> None:
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", "-m", "long", *sys.argv[1:]]
    run = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    lines: list[str] = []
    for line in run.stdout:
        sys.stdout.write(line)
        sys.stdout.flush()
        lines.append(line)
    code = run.wait()
    closing = _CLOSING.findall("".join(lines))
    if closing and len(sys.argv) == 1:
        publish("long-tests", "Tests that take too long for CI", [_COMMAND, _ABOUT, told(circumstances()), closing[-1]])
    sys.exit(code)


if __name__ == "__main__":
    main()
