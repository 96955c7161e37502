"""Read responses and their events with the types that are generated from the Open Responses specification."""

import importlib
from collections.abc import Mapping
from typing import Any


def check(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what does not fit, for a whole response (`response`) or the events of a stream (`events`).

    Fields and values that the specification requires count, also where a client would do without them.
    """
    types: Any = importlib.import_module("openresponses_types.types")
    pydantic: Any = importlib.import_module("pydantic")
    events = _event_types(types)
    values = [*options.get("events", ()), *([options["response"]] if "response" in options else [])]
    faults: list[str] = []
    for value in values:
        model = events.get(value["type"]) if "type" in value else types.ResponseResource
        if model is None:
            faults.append(f"{value['type']} is not an event of the specification")
            continue
        try:
            model.model_validate(value)
        except pydantic.ValidationError as error:
            faults += [f"{value.get('type', 'response')}: {_place(one['loc'])}: {one['msg']}" for one in error.errors()]
    return {"faults": faults}


def _event_types(types: Any) -> dict[str, Any]:
    """The types of events by their `type`, which each of them has as an enumeration of one value."""
    events: dict[str, Any] = {}
    for name in dir(types):
        if name.endswith("StreamingEvent"):
            model: Any = getattr(types, name)
            (tag,) = model.model_fields["type"].annotation
            events[str(tag.value)] = model
    return events


def _place(location: tuple[Any, ...]) -> str:
    return ".".join(map(str, location))
