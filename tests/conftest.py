"""Hypothesis profiles ("ci" is deterministic, "long" searches; see HYPOTHESIS_PROFILE), the seed of samples, and which
files run first.
"""

import os
from pathlib import Path

import pytest
from hypothesis import settings

import sampling
from selection import may_have_selected_tests

# Derandomised: a failing build keeps failing until it is fixed. The long profile searches for new cases.
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=60)
settings.register_profile("long", deadline=None, derandomize=False, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# Files that take minutes, longest first: with one file per core, no long file starts at the end.
_LONGEST = (
    "test_frameworks.py",
    "test_validity.py",
    "test_choices.py",
    "test_examples.py",
    "test_tutorial.py",
    "test_kill_matrix.py",
    "test_doctor.py",
    "test_gateway_fuzz.py",
    "test_hearth_model.py",
    "test_gateway_kills.py",
    "test_gateway_failover.py",
    "test_virtual_schedules.py",
    "test_responses_takeover.py",
    "test_workers.py",
)
_RANKS = {name: rank for rank, name in enumerate(_LONGEST)}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import files of which no test is selected: that is most of the time that collection takes."""
    expression = config.getoption("markexpr", "")
    # Fixtures with marked parameters are in tests/run/conftest.py, which the text of a test does not show.
    if not expression or collection_path.suffix != ".py" or collection_path.parent.name == "run":
        return None
    return True if not may_have_selected_tests(collection_path.read_text("utf-8"), expression) else None


class _FailureLines:
    """Names a test as soon as it fails: a run that is ended before its summary still says what was wrong."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._terminal.write_line(f"\nfailed: {report.nodeid} ({report.when})")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    terminal: pytest.TerminalReporter | None = config.pluginmanager.get_plugin("terminalreporter")
    # The workers of pytest-xdist report to the process that has the terminal.
    if terminal is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_FailureLines(terminal))


def pytest_report_header() -> str:
    return f"sample: {sampling.VARIABLE}={sampling.seed()}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    if exitstatus == pytest.ExitCode.TESTS_FAILED:
        terminalreporter.write_line(f"repeat this sample with {sampling.VARIABLE}={sampling.seed()}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _RANKS.get(item.path.name, len(_RANKS)))
