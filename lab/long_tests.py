"""Run the tests that take too long for CI and publish pytest's summary line: `scripts/long tests`."""

import re
import subprocess
import sys
from typing import Final

from lab.environment import describe_environment, measured_environment
from lab.paths import ROOT
from lab.results_page import publish

_COMMAND: Final = "```sh\nscripts/long tests\n```"
_ABOUT: Final = (
    "Tests marked `long`. CI runs only some of them, because the small model processes a hundred tokens per second."
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
        publish(
            "long-tests",
            "Tests that take too long for CI",
            [_COMMAND, _ABOUT, describe_environment(measured_environment()), closing[-1]],
        )
    sys.exit(code)


if __name__ == "__main__":
    main()
