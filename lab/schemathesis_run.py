"""Run Schemathesis against a gateway: no server error, no undocumented response, no started process, no hang.

Run as `python -m lab.schemathesis_run [SECONDS]`; `scripts/setup-oracles` installs Schemathesis.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lab.fuzz_gateway import KEY
from lab.paths import CACHE
from lab.servers import ServerFailedError, end_group

PROGRAM: Final = CACHE / "venvs" / "schemathesis" / "bin" / "st"
CHECKS: Final = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "ignored_auth",
)
_HANG_SECONDS: Final = 45
"""Longer than every response timeout of the fuzzed gateway."""
_SAYS: Final = "serving on "
_LOG: Final = 4_000


@dataclass(frozen=True, slots=True)
class FuzzResult:
    """The result of a run. `failures` and `errors` are Schemathesis's messages; `spawned` are audit hook events."""

    cases: int
    operations: tuple[int, int]
    """How many operations were tried, and how many there are."""
    seconds: float
    failures: tuple[str, ...]
    errors: tuple[str, ...]
    spawned: tuple[str, ...]
    lives: bool
    output: str = ""
    """Schemathesis's output for each failure, and the end of the gateway's log."""

    @property
    def has_tried_all(self) -> bool:
        tried, of = self.operations
        return tried == of

    @property
    def is_clean(self) -> bool:
        return self.lives and self.has_tried_all and not (self.failures or self.errors or self.spawned)

    def lines(self) -> list[str]:
        tried, of = self.operations
        return [
            f"{self.cases} cases over {tried} of {of} operations in {self.seconds:.0f} s",
            f"failures: {len(self.failures)}",
            *(f"  {one}" for one in self.failures),
            f"errors: {len(self.errors)}",
            *(f"  {one}" for one in self.errors),
            f"processes started by the gateway: {len(self.spawned)}",
            *(f"  {one}" for one in self.spawned),
            f"the gateway {'still answers' if self.lives else 'is gone'}",
            *([] if self.is_clean else [self.output]),
        ]


def fuzz(seconds: int) -> FuzzResult:
    """Run Schemathesis for about this many seconds."""
    if not PROGRAM.is_file():
        raise ServerFailedError("schemathesis is not there", hint="scripts/setup-oracles")
    with tempfile.TemporaryDirectory(prefix="ferrule-fuzz-") as name:
        folder = Path(name)
        spawned = folder / "spawned"
        with _gateway(spawned, folder / "log") as (url, process):
            report, output = _run(url, folder, seconds)
            lives = process.poll() is None
            log = (folder / "log").read_text(errors="replace")[-_LOG:]
        return FuzzResult(
            report["test_cases"]["generated"],
            (report["operations"]["tested"], report["operations"]["selected"]),
            report["running_time"],
            tuple(_failure(one) for one in report["failures"]),
            tuple(f"{one!r:.600}" for one in report["errors"]),
            tuple(spawned.read_text().splitlines()),
            lives,
            f"{output}\n{log}",
        )


def _run(url: str, folder: Path, seconds: int) -> tuple[dict[str, Any], str]:
    report = folder / "report.json"
    command = [
        *(str(PROGRAM), "run", f"{url}/openapi.json", "--header", f"Authorization: Bearer {KEY}"),
        *("--checks", ",".join(CHECKS), "--max-time", str(seconds), "--continue-on-failure"),
        *("--request-timeout", str(_HANG_SECONDS), "--output-sanitize", "false"),
        *("--report", "json", "--report-json-path", str(report)),
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=seconds + 300, check=False)
    if not report.is_file():
        raise ServerFailedError(f"schemathesis wrote no report: {done.stdout[-400:]} {done.stderr[-400:]}")
    failures = done.stdout.partition(" FAILURES ")[2].partition(" WARNINGS ")[0]
    return json.loads(report.read_text()), failures


def _failure(one: dict[str, Any]) -> str:
    return f"{one['title']} ({one['count']} times): {json.dumps(one['operations'])[:1_500]}"


@contextmanager
def _gateway(spawned: Path, log: Path) -> Generator[tuple[str, "subprocess.Popen[bytes]"]]:
    command = [sys.executable, "-m", "lab.fuzz_gateway", str(spawned)]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
        try:
            yield _url(process, log), process
        finally:
            end_group(process)


def _url(process: "subprocess.Popen[bytes]", log: Path, patience: float = 60.0) -> str:
    until = time.monotonic() + patience
    while time.monotonic() < until and process.poll() is None:
        text = log.read_text(errors="replace")
        if text.startswith(_SAYS) and "\n" in text:
            return text.removeprefix(_SAYS).split()[0]
        time.sleep(0.05)
    raise ServerFailedError(f"the gateway did not start: {log.read_text(errors='replace')[-600:]}")


def main() -> None:
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 600
    result = fuzz(seconds)
    print("\n".join(result.lines()))
    sys.exit(0 if result.is_clean else 1)


if __name__ == "__main__":
    main()
