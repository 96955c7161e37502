import os
import subprocess
import sys

import pytest

from architecture.source_tree import SRC
from cli.command_line import run
from ferrule.cli.main import COMMANDS, command

HERMES = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>'


def ferrule(*argv: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "ferrule", *argv],
        input=stdin,
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(SRC)},
    )


def test_the_module_runs_as_a_program_and_its_output_goes_back_through_it() -> None:
    parsed = ferrule("parse", "--format", "hermes", stdin=HERMES.encode())
    assert (parsed.returncode, parsed.stderr) == (0, b"")
    rendered = ferrule("render", "--format", "hermes", stdin=parsed.stdout)
    assert (rendered.returncode, rendered.stdout, rendered.stderr) == (0, HERMES.encode(), b"")


@pytest.mark.parametrize("argv", [("formats",), ("formats", "xlam"), ("--help",)], ids=" ".join)
def test_a_reader_that_goes_away_is_no_traceback(argv: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        child = subprocess.run(
            [sys.executable, "-m", "ferrule", *argv],
            stdout=writing,
            stderr=subprocess.PIPE,
            check=False,
            # Buffered, as it is for users: unbuffered, the failing write is argparse's own, which ignores it.
            env={**os.environ, "PYTHONPATH": str(SRC), "PYTHONUNBUFFERED": ""},
        )
    finally:
        os.close(writing)
    assert (child.returncode, child.stderr) == (141, b"")


def loaded_by(*argv: str) -> set[str]:
    script = f"import sys; from ferrule.cli.main import main; main({argv!r}); print(*sys.modules, file=sys.stderr)"
    child = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(SRC)},
    )
    return set(child.stderr.decode().split())


def test_piped_commands_do_not_load_rich() -> None:
    assert "rich" not in loaded_by("formats", "--json")


@pytest.mark.parametrize("argv", [("formats", "--json"), ("worker", "--help"), ("--version",)], ids=" ".join)
def test_a_command_loads_what_it_needs_and_no_other_command(argv: tuple[str, ...]) -> None:
    loaded = loaded_by(*argv)
    others = {f"ferrule.cli.{name}" for name in COMMANDS if name != argv[0]}
    assert not others & loaded
    assert not {"jinja2", "llguidance", "aiohttp"} & loaded


def test_the_help_lists_every_command_in_one_line_each() -> None:
    ran = run("--help")
    assert ran.code == 0
    lines = [" ".join(line.split()) for line in ran.out.splitlines()]
    assert all(f"{name} {command(name).about}" in lines for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_help_with_an_example(name: str) -> None:
    ran = run(name, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert f"ferrule {name}" in ran.out.partition("examples:")[2]


def test_the_version_is_printed() -> None:
    ran = run("--version")
    assert ran.code == 0
    assert ran.out.startswith("ferrule ")


@pytest.mark.parametrize(
    "argv",
    [
        (),
        ("no-such-command",),
        ("parse",),
        ("parse", "--format", "hermes,"),
        ("parse", "--format", "hermes", "--chunk", "0"),
        ("parse", "--format", "hermes", "--chunk", "-3"),
        ("parse", "--format", "hermes", "--tools", "no/such/file.json"),
    ],
)
def test_wrong_usage_exits_with_2_and_says_how_it_is_used(argv: tuple[str, ...]) -> None:
    ran = run(*argv)
    assert (ran.code, ran.raw) == (2, b"")
    assert "usage: ferrule" in ran.err


@pytest.mark.parametrize("argv", [("parse", "--format", "hermez"), ("render", "-f", "hermes,x"), ("formats", "x")])
def test_an_unknown_format_exits_with_1_and_a_hint(argv: tuple[str, ...]) -> None:
    ran = run(*argv)
    assert (ran.code, ran.raw) == (1, b"")
    error, hint = ran.err.splitlines()
    assert error.startswith("error: no format is called")
    assert hint.startswith("hint: Known: ")
