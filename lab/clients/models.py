"""The tools of `task` as Pydantic models, for clients that derive schemas from types."""

import importlib
from typing import Any, Literal


def book_table() -> type[Any]:
    """A model with the fields of the schema. Created on use, because Pydantic is only in the clients' venvs."""
    pydantic: Any = importlib.import_module("pydantic")
    field = pydantic.Field
    model: type[Any] = pydantic.create_model(
        "book_table",
        __doc__="Books a table.",
        city=(str, field(min_length=2, max_length=20)),
        guests=(int, field(ge=1, le=12)),
        seat=(Literal["inside", "terrace"], field()),
    )
    return model
