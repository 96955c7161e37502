"""Read `tool_choice_policy`, a field of ours in every request body, next to the API's own `tool_choice`."""

from __future__ import annotations

from ferrule.core.choice import ChoicePolicy
from ferrule.dialects.field import Field

_POLICIES = {policy.value: policy for policy in ChoicePolicy}


def read_policy(root: Field) -> ChoicePolicy:
    return root["tool_choice_policy"].or_else(lambda field: field.one_of(_POLICIES), ChoicePolicy.AUTO)
