"""When a count was made and with whose versions, in one line. For counts that no machine changes, so none is named."""

import platform
from datetime import UTC, datetime
from importlib.metadata import version


def counted_with(*others: str) -> str:
    """One line for a page; `others` are pins, as `name==version`, of what is not installed beside Ferrule."""
    ours = (f"{package} {version(package)}" for package in ("ferrule", "llguidance"))
    told = (datetime.now(UTC).date().isoformat(), f"Python {platform.python_version()}", *ours, *others)
    return f"Counted {'; '.join(told)}."
