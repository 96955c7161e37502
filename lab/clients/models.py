"""The tools of `task` as Pydantic models, for clients that make schemas of types and give back values of them."""

import importlib
from typing import Any, Literal


def book_table() -> type[Any]:
    """A model whose fields say what the schema says. Made where it is used: Pydantic is in the clients' venvs only."""
    pydantic: Any = importlib.import_module("pydantic")
    field = pydantic.Field
    made: type[Any] = pydantic.create_model(
        "book_table",
        __doc__="Books a table.",
        city=(str, field(min_length=2, max_length=20)),
        guests=(int, field(ge=1, le=12)),
        seat=(Literal["inside", "terrace"], field()),
    )
    return made
