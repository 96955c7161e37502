"""Builds the console (console/) before a wheel or an sdist is packed, so that no distribution lacks its page.

A checkout has the sources and needs npm. An sdist has the built files, so installing from one needs no npm. An editable
install does not build: scripts/setup does.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

STATIC = Path("src/ferrule/server/console/static")


class ConsoleBuildHook(BuildHookInterface[Any]):
    """Hatch finds this class by its base."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        root = Path(self.root)
        is_sdist = (root / "PKG-INFO").is_file()
        if not is_sdist and shutil.which("npm"):
            subprocess.run([root / "scripts" / "setup-console"], cwd=root, check=True)
        if not (root / STATIC / "index.html").is_file():
            raise RuntimeError(
                f"the console is not built ({STATIC}/index.html is missing) and npm was not found. "
                "Install Node.js 20.19 or newer and build again, or run scripts/setup-console on a machine that has it."
            )
