"""The date and the versions of a count, as one line. The machine is not named, because it does not change counts."""

import platform
from datetime import UTC, datetime
from importlib.metadata import version


def describe_versions(*others: str) -> str:
    """One line for a page; `others` are pins (`name==version`) of software that is not installed with Ferrule."""
    ours = (f"{package} {version(package)}" for package in ("ferrule", "llguidance"))
    parts = (datetime.now(UTC).date().isoformat(), f"Python {platform.python_version()}", *ours, *others)
    return f"Counted {'; '.join(parts)}."
