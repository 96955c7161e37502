"""Law 5: what we render equals what the checkpoints' own templates and the vendors' own libraries render."""

from __future__ import annotations

import pytest

from lab.agreement.everything import all_rows
from lab.agreement.rows import AgreementRow, AgreementVerdict
from lab.template_formats import TEMPLATES

pytestmark = pytest.mark.oracle


@pytest.fixture(scope="module")
def rows() -> list[AgreementRow]:
    return list(all_rows())


def test_no_oracle_disagrees_without_a_known_reason(rows: list[AgreementRow]) -> None:
    wrong = [row for row in rows if row.verdict is AgreementVerdict.DISAGREED]
    assert not wrong, "\n".join(f"{row.source}, {row.question}: {row.why}" for row in wrong)


def test_every_oracle_agrees_on_most_of_what_it_is_asked(rows: list[AgreementRow]) -> None:
    agreed = [row for row in rows if row.verdict is AgreementVerdict.AGREED]
    assert {row.oracle for row in agreed} == {
        "template",
        "mistral_common",
        "oss-harmony",
        "cohere_melody",
        "qwen_agent",
    }
    assert len(agreed) >= 330
    assert len({row.source for row in agreed if row.oracle == "template"}) >= 50


def test_a_template_that_is_not_compared_says_why() -> None:
    silent = [name for name, template in TEMPLATES.items() if template.format is None and not template.reason]
    assert not silent
