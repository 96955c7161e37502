"""The text of a tool in a prompt is computed once, and is the same as of a plain dictionary."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import ToolDefinition
from ferrule.errors import TemplateError
from ferrule.schema.admission_cache import admit_tool, admit_tools
from ferrule.wire.prompt import declaration
from ferrule.wire.registry import get_format
from ferrule.wire.template.budget import TemplateLimits
from ferrule.wire.template.chat_template import ChatTemplate
from ferrule.wire.template.tool_object import template_tool
from lab.rule_tools import sample_tools

TEMPLATES = {
    "each": "{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}",
    "functions": "{% for tool in tools %}{{ tool.function | tojson(indent=2) }}{% endfor %}",
    "all at once": "{{ tools | tojson }}{{ tools | length }}",
    "styles": "{% for tool in tools %}{% for n in range(6) %}{{ tool | tojson(indent=n) }}{% endfor %}{% endfor %}",
    "sorted": "{% for tool in tools %}{{ tool.function.parameters | tojson(sort_keys=true) }}{% endfor %}",
    "parts": "{% for tool in tools %}{% for key, value in tool.function.parameters.properties.items() %}"
    "{{ key }}: {{ value.type }} {{ value | tojson }}{% endfor %}{{ tool.function is mapping }}{{ tool }}{% endfor %}",
}
MESSAGES = [{"role": "user", "content": "hello"}]


def render(source: str, tools: list[ToolDefinition]) -> tuple[str, str]:
    """The text with the kept objects and with plain dictionaries."""
    template = ChatTemplate(source)
    kept = template.render(MESSAGES, list(map(template_tool, tools)))
    return kept, template.render(MESSAGES, [tool.as_function() for tool in tools])


@pytest.mark.parametrize("source", TEMPLATES.values(), ids=TEMPLATES)
def test_a_template_writes_kept_tools_as_it_writes_plain_dictionaries(source: str) -> None:
    for count in (1, 3, 4, 4):
        kept, plain = render(source, [*admit_tools(sample_tools(count))])
        assert kept == plain


@given(st.text(max_size=8), st.text(max_size=8))
def test_tools_that_differ_in_their_description_alone_keep_their_own(first: str, second: str) -> None:
    tools = [admit_tool(ToolDefinition("ping", text)) for text in (first, second, first)]
    kept, plain = render(TEMPLATES["each"], tools)
    assert kept == plain
    for name in ("hermes", "generic_xml", "mistral_v13"):
        text = declaration(get_format(name), (tools[0],))
        assert json.dumps(first, ensure_ascii=False) in text


def test_one_added_tool_is_the_only_one_that_is_written() -> None:
    objects = [template_tool(tool) for tool in admit_tools(sample_tools(20))]
    again = [template_tool(tool) for tool in admit_tools(sample_tools(21))]
    assert all(one is other for one, other in zip(objects, again, strict=False))


def test_a_limit_is_reached_in_the_second_rendering_if_it_is_in_the_first() -> None:
    tools = [*admit_tools(sample_tools(6))]
    source = "{% for n in range(40) %}{% for tool in tools %}{{ tool | tojson | length }}{% endfor %}{% endfor %}"
    reached: list[bool] = []
    for _ in range(3):
        try:
            ChatTemplate(source, limits=TemplateLimits(characters=60_000)).render(
                MESSAGES, list(map(template_tool, tools))
            )
            reached.append(False)
        except TemplateError:
            reached.append(True)
    assert reached == [True] * 3


def test_no_template_can_change_a_kept_tool() -> None:
    (tool,) = admit_tools(sample_tools(1))
    for source in (
        "{{ tools[0].function.update(name='x') }}",
        "{{ tools[0].kept_json.clear() }}",
        "{{ tools[0].kept_measure }}{{ tools[0].function.parameters.required.append('x') }}",
    ):
        with pytest.raises(TemplateError):
            ChatTemplate(source).render(MESSAGES, [template_tool(tool)])
    assert template_tool(tool) == tool.as_function()
