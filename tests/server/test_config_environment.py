"""Settings from environment variables, including those of named tables."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ferrule.server.config.layers import SettingPath
from ferrule.server.config.loader import read_environment, variable_part

NAMES = st.text("abz09-._", min_size=1, max_size=8)


def read_variables(environment: dict[str, str], *paths: SettingPath) -> tuple[dict[SettingPath, object], list[str]]:
    values, problems = read_environment(environment, paths)
    # Without the entries that only record that a name exists.
    return {path: one.value for path, one in values.items() if len(path) == 3}, list(map(str, problems))


@given(st.sets(NAMES, min_size=1, max_size=4))
def test_a_known_name_is_recognized_in_a_variable_or_the_ambiguity_is_reported(names: set[str]) -> None:
    paths = [("engines", name) for name in sorted(names)]
    for name in names:
        variable = f"FERRULE_ENGINES_{variable_part(name)}_USE"
        values, problems = read_variables({variable: "fake:x"}, *paths)
        alike = [one for one in names if variable_part(one) == variable_part(name)]
        if len(alike) == 1:
            assert (values, problems) == ({("engines", name, "use"): "fake:x"}, [])
        else:
            assert not values
            assert "it matches both" in problems[0]


def test_the_environment_alone_can_define_an_engine() -> None:
    environment = {"FERRULE_ENGINES_BIG_ONE_USE": "openai:m", "FERRULE_ENGINES_BIG_ONE_KEY": "k"}
    assert read_variables(environment) == (
        {("engines", "big-one", "use"): "openai:m", ("engines", "big-one", "key"): "k"},
        [],
    )


def test_the_longest_matching_name_wins() -> None:
    environment = {"FERRULE_MODELS_BIG_TWO_ENGINES": "a", "FERRULE_MODELS_BIG_BALANCED": "yes"}
    values, problems = read_variables(environment, ("models", "big"), ("models", "big-two"))
    assert values == {("models", "big-two", "engines"): "a", ("models", "big", "balanced"): "yes"}
    assert not problems


def test_an_unknown_variable_of_a_table_is_reported_and_others_are_ignored() -> None:
    environment = {"FERRULE_SERVER_PROT": "1", "FERRULE_NATS": "x", "FERRULE_KEYS_A_NAM": "x", "TOOLS_DIR": "x"}
    values, problems = read_variables({**environment, "FERRULE_MODELS_M_BLANCED": "1"}, ("models", "m"))
    assert not values
    assert problems == [
        "$FERRULE_SERVER_PROT: it is not a known variable. Did you mean FERRULE_SERVER_PORT?",
        "$FERRULE_MODELS_M_BLANCED: blanced is not known in models. Did you mean balanced?",
        "$FERRULE_KEYS_A_NAM: it matches none of the keys. To define a new one, set FERRULE_KEYS_NAME_SHA256",
    ]
