"""Every page and picture that is generated from the code, and its generator. Run as a program, it writes them all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from architecture.test_import_rules import MAY_IMPORT
from clients.replay import clients_page
from ferrule.cli.config import settings_page
from ferrule.cli.formats import formats_page
from lab.pages.api_page import api_page
from lab.pages.commands_page import commands_page
from lab.pages.errors_page import errors_page
from lab.pages.keywords_page import keywords_page
from lab.pages.layout_picture import layout_picture
from lab.pages.machine_picture import machine_picture
from lab.pages.providers_page import providers_page
from lab.pages.skip_picture import skip_picture

DOCS = Path(__file__).parents[2] / "docs"

GENERATED: dict[str, Callable[[], str]] = {
    "images/layout.svg": lambda: layout_picture(MAY_IMPORT),
    "images/machine.svg": machine_picture,
    "images/skip.svg": skip_picture,
    "reference/api.md": api_page,
    "reference/cli.md": commands_page,
    "reference/clients.md": clients_page,
    "reference/errors.md": errors_page,
    "reference/formats.md": formats_page,
    "reference/providers.md": providers_page,
    "reference/schema-keywords.md": keywords_page,
    "reference/settings.md": settings_page,
}


def main() -> None:
    for name, make in GENERATED.items():
        page, text = DOCS / name, make()
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")
            print(f"docs/{name}: written")


if __name__ == "__main__":
    main()
