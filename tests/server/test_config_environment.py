"""Variables as settings, also of tables that have names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ferrule.server.config.environment import given_in_environment, in_variable
from ferrule.server.config.layers import Place

NAMES = st.text("abz09-._", min_size=1, max_size=8)


def told(environment: dict[str, str], *known: Place) -> tuple[dict[Place, object], list[str]]:
    given, mistakes = given_in_environment(environment, known)
    # Without the marks that a name is there.
    return {place: one.value for place, one in given.items() if len(place) == 3}, list(map(str, mistakes))


@given(st.sets(NAMES, min_size=1, max_size=4))
def test_a_name_that_is_known_is_found_in_a_variable_or_the_doubt_is_told(names: set[str]) -> None:
    known = [("engines", name) for name in sorted(names)]
    for name in names:
        variable = f"FERRULE_ENGINES_{in_variable(name)}_USE"
        given, mistakes = told({variable: "fake:x"}, *known)
        alike = [one for one in names if in_variable(one) == in_variable(name)]
        if len(alike) == 1:
            assert (given, mistakes) == ({("engines", name, "use"): "fake:x"}, [])
        else:
            assert not given
            assert "it could be of" in mistakes[0]


def test_an_engine_can_be_made_by_the_environment_alone() -> None:
    environment = {"FERRULE_ENGINES_BIG_ONE_USE": "openai:m", "FERRULE_ENGINES_BIG_ONE_KEY": "k"}
    assert told(environment) == ({("engines", "big-one", "use"): "openai:m", ("engines", "big-one", "key"): "k"}, [])


def test_the_longest_name_that_fits_is_meant() -> None:
    environment = {"FERRULE_MODELS_BIG_TWO_ENGINES": "a", "FERRULE_MODELS_BIG_BALANCED": "yes"}
    given, mistakes = told(environment, ("models", "big"), ("models", "big-two"))
    assert given == {("models", "big-two", "engines"): "a", ("models", "big", "balanced"): "yes"}
    assert not mistakes


def test_a_variable_of_a_table_that_names_nothing_is_a_mistake_and_others_are_left_alone() -> None:
    environment = {"FERRULE_SERVER_PROT": "1", "FERRULE_NATS": "x", "FERRULE_KEYS_A_NAM": "x", "TOOLS_DIR": "x"}
    given, mistakes = told({**environment, "FERRULE_MODELS_M_BLANCED": "1"}, ("models", "m"))
    assert not given
    assert mistakes == [
        "$FERRULE_SERVER_PROT: no setting is called so. Did you mean FERRULE_SERVER_PORT?",
        "$FERRULE_MODELS_M_BLANCED: blanced is not known in models. Did you mean balanced?",
        "$FERRULE_KEYS_A_NAM: it belongs to none of the keys. A new one is made by FERRULE_KEYS_NAME_SHA256",
    ]
