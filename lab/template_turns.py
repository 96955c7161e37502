"""Extract the turn that a chat template writes for an assistant's calls, without its surroundings."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ferrule.core.ids import ANY_ID, IdPolicy
from ferrule.errors import FerruleError
from ferrule.wire.registry import get_format
from lab.reply_variants import Calls
from lab.template_formats import Template
from lab.workers import Worker

_USER: Final = {"role": "user", "content": "hi"}
_VARIABLES: Final = {"bos_token": "", "eos_token": "</s>", "add_generation_prompt": False}


class NoTurn(FerruleError):
    """The template does not write these calls; the message gives the reason."""

    code = "bench_no_turn"


def turn_of(
    oracles: Worker,
    file: str,
    template: Template,
    calls: Calls,
    tools: Sequence[Mapping[str, Any]],
    text: str = "",
    ids: Sequence[str] | None = None,
) -> str:
    """The text that the template `file` writes for a turn of `text` and `calls`.

    Without `ids`, ids are generated in the form of the template's format.
    """
    if template.format is None and template.reason and not template.opens and not template.ends:
        raise NoTurn(template.reason)
    if template.most_calls is not None and len(calls) > template.most_calls:
        raise NoTurn(f"writes at most {template.most_calls} calls per turn")
    turn = {
        "role": "assistant",
        "content": None if template.content_is_null and not text else text,
        "tool_calls": _tool_calls(template, calls, ids),
    }
    before = _render(oracles, file, template, [_USER], tools)
    added = inserted_text(before, _render(oracles, file, template, [_USER, turn], tools))
    opens = template.opens_text if text and template.opens_text is not None else template.opens
    if not added.startswith(opens):
        raise NoTurn(f"the turn begins with {added[:40]!r}")
    return added.removeprefix(opens).removesuffix(template.ends)


def inserted_text(before: str, after: str) -> str:
    """The text in `after` that is not in `before`: a turn at the end, or before the template's final text."""
    if after.startswith(before):
        return after[len(before) :]
    common = 0
    while common < len(before) and before[-1 - common] == after[-1 - common]:
        common += 1
    return after[len(before) - common : len(after) - common]


def _render(
    oracles: Worker,
    file: str,
    template: Template,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
) -> str:
    answer = oracles.ask(
        {
            **{"oracle": "templates", "op": "render", "template": file, "messages": messages, "tools": list(tools)},
            "options": {**_VARIABLES, **template.variables},
        }
    )
    if answer["error"]:
        raise NoTurn(f"raises {answer['error']}")
    return answer["text"]


def _tool_calls(template: Template, calls: Calls, ids: Sequence[str] | None) -> list[dict[str, Any]]:
    policy = get_format(template.format).ids if template.format else ANY_ID
    result: list[dict[str, Any]] = []
    for number, (name, arguments) in enumerate(calls):
        argument_value: Any = (
            json.dumps(arguments, ensure_ascii=False) if template.arguments_as_text else dict(arguments)
        )
        call_id = ids[number] if ids is not None else example_id(policy, name, number)
        result.append({"id": call_id, "type": "function", "function": {"name": name, "arguments": argument_value}})
    return result


def example_id(policy: IdPolicy, name: str, number: int) -> str:
    """An id that the policy accepts, the same in every run."""
    forms = (f"abcdefg{number:02}", f"abcdefgh{number:02}", str(number), f"functions.{name}:{number}")
    return next(form for form in forms if policy.fits(form, name))
