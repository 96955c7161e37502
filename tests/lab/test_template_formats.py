import pytest

from ferrule.wire.registry import all_formats
from lab.template_formats import TEMPLATES, Template
from lab.workers import oracles

EVERY_TEMPLATE = [pytest.param(template, id=file) for file, template in TEMPLATES.items()]


@pytest.mark.parametrize("template", EVERY_TEMPLATE)
def test_a_template_names_a_format_that_there_is_or_says_why_it_has_none(template: Template):
    if template.format is None:
        assert template.reason
    else:
        assert template.format in all_formats()
        assert not template.reason


@pytest.mark.parametrize("template", EVERY_TEMPLATE)
def test_a_template_that_writes_one_call_is_of_a_format_or_says_so_itself(template: Template):
    most = all_formats()[template.format].calls.max_calls if template.format else None
    assert most is None or template.most_calls == most


@pytest.mark.oracle
def test_the_table_has_exactly_the_templates_that_were_unpacked():
    with oracles() as worker:
        assert set(TEMPLATES) == set(worker.ask({"oracle": "templates", "op": "names"})["names"])
