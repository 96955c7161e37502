"""The configuration from file, environment and flags: what counts, and what is said of what is wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.errors import DefinitionError
from ferrule.server.config.config import Config
from ferrule.server.config.layers import Given
from ferrule.server.config.loader import Loaded, load, read
from ferrule.server.config.tables import TABLES, Setting, variables_of

ENGINE = '[engines.e]\nuse = "fake:hello"\n'
PLAIN = [one for table in TABLES.values() if not table.is_named for one in table.settings.values()]
# Those that need others beside them, or that others forbid.
ALONE = [
    one for one in PLAIN if one.name not in ("mcp_args", "nats_key_file", "nats_credentials", "nats_inbox", "host")
]


def loaded(text: str = "", environment: dict[str, str] | None = None, **flags: Any) -> Loaded:
    over = {("server", name): Given(value, f"--{name}") for name, value in flags.items()}
    return read(ENGINE + text, "ferrule.toml", environment or {}, over)


def refused(text: str = "", environment: dict[str, str] | None = None, start: str = ENGINE) -> str:
    with pytest.raises(DefinitionError) as refusal:
        read(start + text, "ferrule.toml", environment or {})
    assert refusal.value.code == "bad_configuration"
    return refusal.value.message


def another(setting: Setting) -> Any:
    """A value that is not the default."""
    usual = setting.default
    if isinstance(usual, StrEnum):
        return next(one for one in type(usual) if one is not usual)
    if isinstance(usual, bool):
        return not usual
    return {int: 77, float: 7.5, str: "other", tuple: ("a", "b")}[type(usual)]


def value_of(config: Config, setting: Setting) -> Any:
    if setting.owner is Config:
        return getattr(config, setting.name)
    return getattr(getattr(config, TABLES[setting.table].attribute), setting.name)


def written(value: Any) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def in_environment(value: Any) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)


@pytest.mark.parametrize("setting", ALONE, ids=lambda one: f"{one.table}.{one.name}")
def test_every_setting_is_read_from_the_file_and_from_the_environment(setting: Setting) -> None:
    wanted = another(setting)
    in_file = loaded(f"[{setting.table}]\n{setting.name} = {written(wanted)}\n")
    assert value_of(in_file.config, setting) == wanted
    assert in_file.origin(setting.table, setting.name) == "ferrule.toml line 4"
    for variable in variables_of(setting):
        told = loaded(environment={variable: in_environment(wanted)})
        assert value_of(told.config, setting) == wanted
        assert told.origin(setting.table, setting.name) == f"${variable}"
    assert value_of(loaded().config, setting) == setting.default


@given(st.none() | st.integers(1, 99), st.none() | st.integers(1, 99), st.none() | st.integers(1, 99))
def test_a_flag_counts_before_a_variable_and_a_variable_before_the_file(
    in_file: int | None, told: int | None, flag: int | None
) -> None:
    text = "" if in_file is None else f"[server]\nport = {in_file}\n"
    environment = {} if told is None else {"FERRULE_SERVER_PORT": str(told)}
    flags = {} if flag is None else {"port": flag}
    first = next((one for one in (flag, told, in_file) if one is not None), Config(engines=()).listening.port)
    assert loaded(text, environment, **flags).config.listening.port == first


def test_settings_of_the_specification_keep_their_names() -> None:
    names = {"tools_enabled", "tools_max_iterations", "tools_per_tool_timeout_seconds", "tools_max_parallel"}
    names |= {"tools_default_set", "tools_require_confirmation_for_side_effects"}
    assert set(TABLES["tools"].settings) == names
    both = loaded(environment={"TOOLS_MAX_PARALLEL": "3", "FERRULE_TOOLS_MAX_PARALLEL": "5"})
    assert both.config.tools.tools_max_parallel == 5


def test_an_empty_file_with_an_engine_is_the_defaults() -> None:
    config = loaded().config
    assert config == replace(Config(engines=()), engines=config.engines)
    assert [(one.name, one.use) for one in config.engines] == [("e", "fake:hello")]


def test_options_of_an_engine_stand_beside_it_and_any_character_goes_through() -> None:
    from ferrule.engines.registry import parts_of

    key = "a&b=c%20?d+é#"
    text = '[engines.x]\nuse = "openai:gpt?strict=true"\nkey = "${KEY}"\ntries = 2\nhonours = ["auto", "none"]\n'
    config = loaded(text, {"KEY": key, "FERRULE_ENGINES_X_URL": "https://h/v1?a=b"}).config
    parts = parts_of(config.engines[1].use)
    assert (parts.kind, parts.on) == ("openai", "gpt")
    assert parts.options == {
        **{"strict": "true", "key": key, "tries": "2", "honours": "auto,none"},
        "url": "https://h/v1?a=b",
    }
    assert key not in repr(config)


@pytest.mark.parametrize(
    "text, told",
    [
        ("[server]\nprot = 1", "ferrule.toml line 4: server.prot is not known. Did you mean port?"),
        ("[server]\nbody_bytes = 1", "ferrule.toml line 4: server.body_bytes is not known. It stands in [limits]"),
        ("[srever]\nport = 1", "ferrule.toml line 3: srever is not known. Did you mean server?"),
        ("[server]\nport = '80'", "ferrule.toml line 4: server.port cannot be '80'. Give a whole number"),
        ("[server]\nport = true", "server.port cannot be True. Give a whole number"),
        ("[server]\nport = -1", "server.port cannot be -1. Give 0 or more"),
        ("[server]\nport = 70000", "server.port cannot be 70000. Give at most 65535"),
        ("[server]\nworkers = 0", "server.workers cannot be 0. Give more than 0"),
        ("[server]\nlease_seconds = 0", "server.lease_seconds cannot be 0.0. Give more than 0"),
        ("[server]\nhosts = 'all'", "server.hosts cannot be 'all'. Give a list of texts"),
        ("[server]\nhosts = [1]", "server.hosts cannot be [1]. Give a list of texts"),
        ("[server]\ntool_choice_policy = 'x'", "server.tool_choice_policy cannot be 'x'. Give one of auto"),
        ("[limits]\ntotal_seconds = nan", "limits.total_seconds cannot be nan. Give a number"),
        ("[tools]\ntools_enabled = 1", "tools.tools_enabled cannot be 1. Give true or false"),
        ("[tools]\nenabled = true", "tools.enabled is not known. Did you mean tools_enabled?"),
        ("[models.m]\nbalanced = true", "ferrule.toml line 3: models.m has no engines. Write engines = ... under it"),
        ("[models.m]\nengines = ['f']", "ferrule.toml line 3: models.m: there is no engine 'f'. Known engines: e"),
        ("[models]\nm = 1", "ferrule.toml line 4: models.m is a table and not a value. Write [models.m]"),
        ("[engines.x]\nues = 'fake:a'", "engines.x has no use. Write use = ... under it; there is only ues"),
        ("[engines.x]\nuse = 'fake:a'\ntims = 1", "engines.x: fake has no option 'tims'. It has: times"),
        ("[engines.x]\nuse = 'fak:a'", "engines.x: no engine is called 'fak'. Known: "),
        ("[engines.x]\nuse = 'fake:a'\ntimes = {a = 1}", "engines.x.times cannot be an option of an engine"),
        ("[[keys]]\nsha256 = 'x'", "ferrule.toml line 3: an entry of keys has no name"),
        ("[[keys]]\nname = 'a'", "ferrule.toml line 3: keys.a has no sha256"),
        ("[[keys]]\nname = 'a'\nsha256 = 'A'", "ferrule.toml line 3: keys.a: sha256 is not 64 hexadecimal digits"),
        ("[server]\nhost = '${NOBODY}'", "line 4: server.host needs the environment variable NOBODY, which is not set"),
        ("[server]\nhost = '${1}'", "server.host holds ${1}, which names no variable"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_what_to_do(text: str, told: str) -> None:
    assert told in refused(text)


@pytest.mark.parametrize(
    "text, told",
    [
        ("", "there is no engine. Give --engine llama:model.gguf, or write [engines.NAME]"),
        ("keys = 1", "line 1: keys is no list of tables. Write [keys.NAME]"),
        ("server = 1", "line 1: server is a table and not a value. Write [server] on a line of its own"),
        ("port = 1", "line 1: port is not known. It stands in [server]"),
    ],
)
def test_what_stands_in_no_table_is_told(text: str, told: str) -> None:
    assert told in refused(text, start="")


def test_all_mistakes_are_told_at_once_and_each_once() -> None:
    text = "[server]\nport = 'x'\nhost = 1\n[limits]\nstreams = '${NONE}'\nstrams = 1\n"
    message = refused(text, {"FERRULE_SERVER_PROT": "1", "FERRULE_KEYS_A_B": "1"})
    assert message.startswith("the configuration cannot be used (6 mistakes):\n")
    assert len(message.splitlines()) == 7


def test_what_is_not_toml_is_told_with_the_place() -> None:
    assert "ferrule.toml is not TOML" in refused("[server\n")
    assert "line 4" in refused("[server]\nhost = here\n")


def test_a_value_may_come_from_the_environment_whatever_its_kind() -> None:
    text = '[server]\nport = "${P}"\nhost = "${H:-127.0.0.1}"\norigins = ["${O}", "$${O}"]\n'
    config = loaded(text + '[tools]\ntools_enabled = "${T}"\n', {"P": "81", "O": "https://a", "T": "no"}).config
    assert (config.listening.port, config.listening.host) == (81, "127.0.0.1")
    assert config.listening.origins == ("https://a", "${O}")
    assert config.tools.tools_enabled is False


def test_two_keys_of_one_name_are_refused() -> None:
    key = f'[[keys]]\nname = "a"\nsha256 = "{"0" * 64}"\n'
    assert "line 7: two entries of keys are called 'a'. Rename one" in refused(key + key)


def test_beyond_this_machine_any_host_is_answered_to_unless_names_are_given() -> None:
    key = f'[[keys]]\nname = "a"\nsha256 = "{"0" * 64}"\n'
    assert loaded(key, host="0.0.0.0").config.listening.hosts == ("*",)
    assert loaded(key + "[server]\nhosts = ['h']\n", host="0.0.0.0").config.listening.hosts == ("h",)
    assert "*" not in loaded(key, host="::1").config.listening.hosts


def test_a_file_is_read_where_it_is_and_the_usual_one_where_none_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DefinitionError, match="there is no engine"):
        load(None, {})
    (tmp_path / "ferrule.toml").write_text("\ufeff" + ENGINE, encoding="utf-8")
    assert load(None, {}).config.engines[0].name == "e"
    (tmp_path / "other.toml").write_text(ENGINE.replace(".e]", ".o]"), encoding="utf-8")
    assert load("other.toml", {}).config.engines[0].name == "o"
    with pytest.raises(DefinitionError, match=r"none.toml cannot be read: No such file"):
        load("none.toml", {})
    (tmp_path / "latin.toml").write_bytes(b"# \xff\n")
    with pytest.raises(DefinitionError, match="not UTF-8"):
        load("latin.toml", {})


@given(st.text(max_size=60))
def test_no_text_is_more_than_refused(text: str) -> None:
    with pytest.raises(DefinitionError):
        read(f"[server]\nport = -1\n{text}", "ferrule.toml", {})
