import json
from pathlib import Path

import pytest

from cli.command_line import TOOLS


@pytest.fixture(scope="session")
def tools_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("cli") / "tools.json"
    path.write_text(json.dumps(TOOLS), encoding="utf-8")
    return str(path)
