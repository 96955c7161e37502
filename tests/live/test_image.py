"""The steps of the Dockerfile, carried out in an empty folder, and what comes out of them run as the image runs it.

The registry of the base images is not asked: the folder stands for the file system, this machine's Python and Node.js
for those of the images. The gateway then runs as the image's user, who can write nowhere but to /tmp and its ledger.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab.paths import ROOT
from lab.servers import free_port
from server.keys import key
from waiting import eventually

pytestmark = pytest.mark.live
DEPLOY = ROOT / "docs" / "how-to" / "deploy"
FOLDERS = ("/src", "/opt/ferrule", "/srv/ferrule")
USER = 10001


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    steps: tuple[tuple[str, str], ...]
    """Instructions and what they are given."""

    def last(self, instruction: str) -> str:
        return [given for name, given in self.steps if name == instruction][-1]


def stages() -> dict[str, Stage]:
    """The stages of the Dockerfile. The last one, which has no name, is "image"."""
    text = re.sub(r"^\s*#.*\n", "", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    made: dict[str, list[tuple[str, str]]] = {}
    current = ""
    for line in lines:
        instruction, given = line.split(maxsplit=1)
        if instruction == "FROM":
            named = re.search(r" AS (\w+)", given)
            current = named[1] if named else "image"
            made[current] = []
        elif current:
            made[current].append((instruction, given.strip()))
    return {name: Stage(name, tuple(steps)) for name, steps in made.items()}


@dataclass(frozen=True, slots=True)
class Image:
    """A folder that stands for the file system of the image."""

    root: Path

    def inside(self, text: str) -> str:
        """A command with its absolute paths turned into those of the folder."""
        for folder in FOLDERS:
            text = re.sub(rf"(?<![\w/.]){folder}(?![\w])", f"{self.root}{folder}", text)
        return text

    def path(self, name: str) -> Path:
        return self.root / name.removeprefix("/")

    @property
    def user(self) -> dict[str, Any]:
        """How a process of the image is started: as its user if this is root, who else may not change users."""
        user = {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}
        environment = {
            "PATH": f"{self.path('/opt/ferrule/bin')}:/usr/bin:/bin",
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": str(self.path("/tmp")),
        }
        return {**user, "env": environment, "cwd": self.path("/srv/ferrule")}

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, check=False, **self.user)


def copy(given: str, stage: Image, console: Image) -> None:
    """COPY: of the repository's files only what is tracked or would be; .dockerignore leaves out the rest."""
    if given.startswith("--from=console "):
        source, target = given.split()[1:]
        shutil.copytree(console.inside(source), stage.path("/src") / target)
        return
    *names, target = given.split()
    for name in names:
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", name],
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
        for file in filter(None, listed.stdout.decode().split("\0")):
            inner = Path(file).relative_to(name) if (ROOT / name).is_dir() else Path(file).name
            place = stage.path("/src") / target / inner
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / file, place)


def build(image: Image, console: Image) -> None:
    """Carry out both stages that build something."""
    tools, programs = image.root / "tools", image.root / "programs"
    subprocess.run([sys.executable, "-m", "venv", tools], check=True)
    # A Python that the image's user may run too: one in somebody's home is not.
    public = next(name for name in ("/usr/local/bin/python3", "/usr/bin/python3") if Path(name).exists())
    programs.mkdir()
    (programs / "python").symlink_to(public if os.geteuid() == 0 else sys.executable)
    # The stage that builds the wheel has no npm, so that its build hook takes the console that was copied.
    paths = {"console": os.environ["PATH"], "build": f"{programs}:{tools / 'bin'}"}
    for name, stage in (("console", console), ("build", image)):
        for instruction, given in stages()[name].steps:
            if instruction == "COPY":
                copy(given, stage, console)
            elif instruction == "RUN":
                done = subprocess.run(
                    ["/bin/sh", "-ec", stage.inside(given)],
                    cwd=stage.path("/src"),
                    env={**os.environ, "PATH": paths[name]},
                    capture_output=True,
                    text=True,
                    check=False,
                )
                assert done.returncode == 0, f"{given}\n{done.stdout}{done.stderr}"


@pytest.fixture(scope="module")
def image() -> Generator[Image]:
    # Not in pytest's folder, which nobody else may enter.
    made = Image(Path(tempfile.mkdtemp(prefix="ferrule-image-")))
    console = Image(made.root / "console")
    made.root.chmod(0o755)
    for folder in FOLDERS:
        made.path(folder).mkdir(parents=True)
        console.path(folder).mkdir(parents=True)
    try:
        build(made, console)
        for folder in ("/tmp", "/ledger"):
            made.path(folder).mkdir()
            if os.geteuid() == 0:
                os.chown(made.path(folder), USER, USER)
        yield made
    finally:
        shutil.rmtree(made.root)


def test_it_serves_its_console_as_a_user_who_can_write_nowhere(image: Image) -> None:
    if os.geteuid() == 0:
        writable = image.run("find", image.path("/opt"), image.path("/srv"), "-writable", "-not", "-type", "l")
        assert (writable.stdout, writable.returncode) == ("", 0)
    port = free_port()
    config, log = image.root / "ferrule.toml", image.root / "log"
    config.write_text(
        f'[server]\nport = {port}\nhosts = ["gateway.example", "localhost"]\n'
        f'ledger = "{image.path("/ledger/ledger.db")}"\n'
        f'[engines.e]\nuse = "fake:Hello."\n[[keys]]\nname = "app"\nsha256 = "{key("app").sha256}"\n',
        encoding="utf-8",
    )
    config.chmod(0o644)
    entry = json.loads(stages()["image"].last("ENTRYPOINT"))
    with log.open("wb") as out:
        process = subprocess.Popen([*entry, "--config", str(config)], stdout=out, stderr=out, **image.user)
    try:
        eventually(lambda: "serving on" in log.read_text() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        check = stages()["image"].last("HEALTHCHECK").split("CMD", 1)[1].replace(":8000", f":{port}")
        assert image.run(*json.loads(check)).returncode == 0
        ask = urllib.request.Request(f"http://127.0.0.1:{port}/console/", headers={"host": "localhost"})
        with urllib.request.urlopen(ask) as answer:
            assert b"<title>" in answer.read()
        process.terminate()
        assert process.wait(60) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
    assert image.run(*json.loads(check)).returncode != 0


def test_the_list_of_contents_names_every_package_with_its_version(image: Image) -> None:
    contents = json.loads(image.path("/opt/ferrule/sbom.cdx.json").read_text(encoding="utf-8"))
    assert contents["bomFormat"] == "CycloneDX"
    listed = {one["name"].lower().replace("_", "-"): one["version"] for one in contents["components"]}
    locked = dict(re.findall(r"^([\w.-]+)==([\w.]+)", (DEPLOY / "requirements.lock").read_text(), re.MULTILINE))
    assert {"ferrule", "starlette", "psycopg-binary"} <= set(listed)
    assert {name: version for name, version in listed.items() if name != "ferrule"}.items() <= locked.items()
    # Nothing that could install more.
    assert not {"pip", "setuptools", "hatchling"} & set(listed)


def test_every_extra_of_the_image_can_be_imported(image: Image) -> None:
    program = "import mcp, nats, psycopg, tantivy, uvloop, yaml, ferrule; print(ferrule.__name__)"
    done = image.run("python", "-c", program)
    assert done.stdout.strip() == "ferrule", done.stderr
