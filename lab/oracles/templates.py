"""Chat templates, rendered the way transformers renders them.

Transformers' immutable sandbox refuses a template that changes a list in place. Such a template is rendered in the
plain sandbox with the same filters, globals and tags, and the answer says so.
"""

import datetime
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypedDict

_FOLDER: Final = Path(sys.prefix).parents[1] / "templates"


class RenderResult(TypedDict):
    text: str
    sandbox: str


def names() -> list[str]:
    """The template files that `scripts/setup-oracles` unpacked."""
    return sorted(path.name for path in _FOLDER.glob("*.jinja"))


def source(name: str) -> str:
    if name not in names():
        raise FileNotFoundError(f"no template {name!r} in {_FOLDER.name}/")
    return (_FOLDER / name).read_text(encoding="utf-8")


def render(
    template: str,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] | None,
    options: Mapping[str, Any],
    now: str,
) -> RenderResult:
    """The text of a conversation under a template's source.

    `options` are the template's other variables (`add_generation_prompt`, `bos_token`, ...). `now` is the date for the
    template in ISO form, so that two runs give the same text.
    """
    compiled = importlib.import_module("transformers.utils.chat_template_utils")._compile_jinja_template(template)
    sandbox = importlib.import_module("jinja2.sandbox")
    variables = {"messages": messages, "tools": tools, "strftime_now": _clock(now), **options}
    try:
        return {"text": compiled.render(**variables), "sandbox": "immutable"}
    except sandbox.SecurityError:
        return {"text": _in_plain_sandbox(compiled.environment, template).render(**variables), "sandbox": "plain"}


def _in_plain_sandbox(environment: Any, template: str) -> Any:
    plain = importlib.import_module("jinja2.sandbox").SandboxedEnvironment(
        trim_blocks=environment.trim_blocks,
        lstrip_blocks=environment.lstrip_blocks,
        extensions=[type(extension) for extension in environment.extensions.values()],
    )
    plain.filters.update(environment.filters)
    plain.globals.update(environment.globals)
    return plain.from_string(template)


def _clock(now: str) -> Callable[[str], str]:
    moment = datetime.datetime.fromisoformat(now)
    return moment.strftime
