"""What the run of the first hour reads of a page."""

from __future__ import annotations

import pytest

from lab.first_hour.course import PAGES
from lab.first_hour.pages import Page, PageChangedError

TEXT = """
```console
$ pip install thing
$ python ask.py
first
```

Save this as `ask.py`, in the folder of `thing`:

```python live
print("first")
```

```console
$ python ask.py
second
```
"""


def test_a_page_has_its_commands_in_order_with_what_is_shown_below_them() -> None:
    page = Page("page.md", TEXT)
    assert dict(page.commands) == {"pip install thing": "", "python ask.py": "first\nsecond\n"}
    assert page.command("pip") == "pip install thing"
    assert page.files == {"ask.py": 'print("first")\n'}


def test_what_a_page_does_not_have_is_an_error() -> None:
    page = Page("page.md", TEXT)
    with pytest.raises(PageChangedError, match="0 commands"):
        page.command("ferrule")
    with pytest.raises(PageChangedError, match="does not have"):
        page.check_has("third")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_page_of_the_run_has_commands(page: Page) -> None:
    assert page.commands
