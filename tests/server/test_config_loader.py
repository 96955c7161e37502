"""The configuration from file, environment and flags: precedence and error messages."""

from __future__ import annotations

import base64
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
from ferrule.server.config.layers import LayerValue
from ferrule.server.config.loader import LoadedConfig, load_config, parse_config
from ferrule.server.config.tables import TABLES, Setting, variables_of

ENGINE = '[engines.e]\nuse = "fake:hello"\n'
PLAIN = [one for table in TABLES.values() if not table.is_named for one in table.settings.values()]
# Without settings that depend on others.
DEPENDENT = {"audit_days", "mcp_args", "nats_key_file", "nats_credentials", "nats_inbox", "host", "webhook_url"}
ALONE = [one for one in PLAIN if one.name not in DEPENDENT]


def load_text(text: str = "", environment: dict[str, str] | None = None, **flags: Any) -> LoadedConfig:
    flag_values = {("server", name): LayerValue(value, f"--{name}") for name, value in flags.items()}
    return parse_config(ENGINE + text, "ferrule.toml", environment or {}, flag_values)


def error_of(text: str = "", environment: dict[str, str] | None = None, start: str = ENGINE) -> str:
    with pytest.raises(DefinitionError) as refusal:
        parse_config(start + text, "ferrule.toml", environment or {})
    assert refusal.value.code == "bad_configuration"
    return refusal.value.message


def other_value(setting: Setting) -> Any:
    """A value that is not the default."""
    default = setting.default
    if isinstance(default, StrEnum):
        return next(one for one in type(default) if one is not default)
    if isinstance(default, bool):
        return not default
    if (setting.table, setting.name) == ("quota_store", "address"):
        return "valkey://other:6379/0"
    if setting.name == "hooks":
        return ("echo", "module:name")
    return {int: 77, float: 7.5, str: "other", tuple: ("a", "b")}[type(default)]


def value_of(config: Config, setting: Setting) -> Any:
    if setting.owner is Config:
        return getattr(config, setting.name)
    return getattr(getattr(config, TABLES[setting.table].name), setting.name)


def toml_text(value: Any) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def environment_text(value: Any) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)


@pytest.mark.parametrize("setting", ALONE, ids=lambda one: f"{one.table}.{one.name}")
def test_every_setting_is_read_from_the_file_and_from_the_environment(setting: Setting) -> None:
    value = other_value(setting)
    from_file = load_text(f"[{setting.table}]\n{setting.name} = {toml_text(value)}\n")
    assert value_of(from_file.config, setting) == value
    assert from_file.origin(setting.table, setting.name) == "ferrule.toml line 4"
    for variable in variables_of(setting):
        from_environment = load_text(environment={variable: environment_text(value)})
        assert value_of(from_environment.config, setting) == value
        assert from_environment.origin(setting.table, setting.name) == f"${variable}"
    assert value_of(load_text().config, setting) == setting.default


def test_questions_of_mcp_servers_may_wait_for_no_time_at_all() -> None:
    assert load_text("[sources]\nmcp_question_seconds = 0\n").config.sources.mcp_question_seconds == 0
    negative = "[sources]\nmcp_question_seconds = -1\n"
    assert "sources.mcp_question_seconds cannot be -1.0. Give 0 or more" in error_of(negative)


def test_a_webhook_has_a_url_and_a_secret() -> None:
    server = '[server]\nwebhook_url = "https://h/paid"\n'
    assert "server.webhook_secret: " in error_of(server)
    secret = f"whsec_{base64.b64encode(bytes(32)).decode()}"
    loaded = load_text(server + f'webhook_secret = "{secret}"\n').config.server
    assert (loaded.webhook_url, loaded.webhook_secret) == ("https://h/paid", secret)


@given(st.none() | st.integers(1, 99), st.none() | st.integers(1, 99), st.none() | st.integers(1, 99))
def test_a_flag_overrides_a_variable_and_a_variable_overrides_the_file(
    file_value: int | None, variable: int | None, flag: int | None
) -> None:
    text = "" if file_value is None else f"[server]\nport = {file_value}\n"
    environment = {} if variable is None else {"FERRULE_SERVER_PORT": str(variable)}
    flags = {} if flag is None else {"port": flag}
    first = next((one for one in (flag, variable, file_value) if one is not None), Config(engines=()).server.port)
    assert load_text(text, environment, **flags).config.server.port == first


def test_settings_of_the_specification_keep_their_names() -> None:
    names = {"tools_enabled", "tools_max_iterations", "tools_per_tool_timeout_seconds", "tools_max_parallel"}
    names |= {"tools_default_set", "tools_require_confirmation_for_side_effects"}
    assert set(TABLES["tools"].settings) == {*names, "hooks"}
    both = load_text(environment={"TOOLS_MAX_PARALLEL": "3", "FERRULE_TOOLS_MAX_PARALLEL": "5"})
    assert both.config.tools.tools_max_parallel == 5


def test_a_file_with_only_an_engine_gives_the_defaults() -> None:
    config = load_text().config
    assert config == replace(Config(engines=()), engines=config.engines)
    assert [(one.name, one.use) for one in config.engines] == [("e", "fake:hello")]


def test_engine_options_are_keys_of_its_table_and_any_character_survives() -> None:
    from ferrule.engines.registry import parse_engine_spec

    key = "a&b=c%20?d+é#"
    text = '[engines.x]\nuse = "openai:gpt?strict=true"\nkey = "${KEY}"\ntries = 2\nhonours = ["auto", "none"]\n'
    config = load_text(text, {"KEY": key, "FERRULE_ENGINES_X_URL": "https://h/v1?a=b"}).config
    parts = parse_engine_spec(config.engines[1].use)
    assert (parts.kind, parts.argument) == ("openai", "gpt")
    assert parts.options == {
        **{"strict": "true", "key": key, "tries": "2", "honours": "auto,none"},
        "url": "https://h/v1?a=b",
    }
    assert key not in repr(config)


@pytest.mark.parametrize(
    "text, message",
    [
        ("[server]\nprot = 1", "ferrule.toml line 4: server.prot is not known. Did you mean port?"),
        ("[server]\nbody_bytes = 1", "ferrule.toml line 4: server.body_bytes is not known. It belongs in [limits]"),
        ("[srever]\nport = 1", "ferrule.toml line 3: srever is not known. Did you mean server?"),
        ("[server]\nport = '80'", "ferrule.toml line 4: server.port cannot be '80'. Give an integer"),
        ("[server]\nport = true", "server.port cannot be True. Give an integer"),
        ("[server]\nport = -1", "server.port cannot be -1. Give 0 or more"),
        ("[server]\nport = 70000", "server.port cannot be 70000. Give at most 65535"),
        ("[server]\nworkers = 0", "server.workers cannot be 0. Give more than 0"),
        ("[server]\nlease_seconds = 0", "server.lease_seconds cannot be 0.0. Give more than 0"),
        ("[server]\nhosts = 'all'", "server.hosts cannot be 'all'. Give a list of strings"),
        ("[server]\nhosts = [1]", "server.hosts cannot be [1]. Give a list of strings"),
        ("[server]\ntool_choice_policy = 'x'", "server.tool_choice_policy cannot be 'x'. Give one of auto"),
        ("[limits]\ntotal_seconds = nan", "limits.total_seconds cannot be nan. Give a number"),
        ("[tools]\ntools_enabled = 1", "tools.tools_enabled cannot be 1. Give true or false"),
        ("[tools]\nenabled = true", "tools.enabled is not known. Did you mean tools_enabled?"),
        ("[models.m]\nbalanced = true", "ferrule.toml line 3: models.m has no engines. Write engines = ... under it"),
        ("[models.m]\nengines = ['f']", "ferrule.toml line 3: models.m: unknown engine 'f'. Known engines: e"),
        ("[models]\nm = 1", "ferrule.toml line 4: models.m is a table and not a value. Write [models.m]"),
        ("[engines.x]\nues = 'fake:a'", "engines.x has no use. Write use = ... under it; it has only ues"),
        ("[engines.x]\nuse = 'fake:a'\ntims = 1", "engines.x: fake has no option 'tims'. It has: times"),
        ("[engines.x]\nuse = 'fak:a'", "engines.x: unknown engine 'fak'. Known: "),
        ("[engines.x]\nuse = 'fake:a'\ntimes = {a = 1}", "engines.x.times cannot be an option of an engine"),
        ("[[keys]]\nsha256 = 'x'", "ferrule.toml line 3: an entry of keys has no name"),
        ("[[keys]]\nname = 'a'", "ferrule.toml line 3: keys.a has no sha256"),
        (
            "[[keys]]\nname = 'a'\nsha256 = 'A'",
            "ferrule.toml line 3: keys.a: sha256 is not 64 lower-case hexadecimal digits",
        ),
        ("[server]\nhost = '${NOBODY}'", "line 4: server.host needs the environment variable NOBODY, which is not set"),
        ("[server]\nhost = '${1}'", "server.host contains ${1}, which is not a variable name"),
    ],
)
def test_a_problem_is_reported_with_its_line_and_a_remedy(text: str, message: str) -> None:
    assert message in error_of(text)


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "no engine is configured. Give --engine llama:model.gguf, or write [engines.NAME]"),
        ("keys = 1", "line 1: keys is not a list of tables. Write [keys.NAME]"),
        ("server = 1", "line 1: server is a table and not a value. Write [server] on its own line"),
        ("port = 1", "line 1: port is not known. It belongs in [server]"),
    ],
)
def test_settings_outside_of_tables_are_reported(text: str, message: str) -> None:
    assert message in error_of(text, start="")


def test_all_problems_are_reported_at_once_without_duplicates() -> None:
    text = "[server]\nport = 'x'\nhost = 1\n[limits]\nstreams = '${NONE}'\nstrams = 1\n"
    message = error_of(text, {"FERRULE_SERVER_PROT": "1", "FERRULE_KEYS_A_B": "1"})
    assert message.startswith("the configuration is invalid (6 problems):\n")
    assert len(message.splitlines()) == 7


def test_invalid_toml_is_reported_with_its_location() -> None:
    assert "ferrule.toml is not TOML" in error_of("[server\n")
    assert "line 4" in error_of("[server]\nhost = here\n")


def test_a_value_of_any_type_may_come_from_the_environment() -> None:
    text = '[server]\nport = "${P}"\nhost = "${H:-127.0.0.1}"\norigins = ["${O}", "$${O}"]\n'
    config = load_text(text + '[tools]\ntools_enabled = "${T}"\n', {"P": "81", "O": "https://a", "T": "no"}).config
    assert (config.server.port, config.server.host) == (81, "127.0.0.1")
    assert config.server.origins == ("https://a", "${O}")
    assert config.tools.tools_enabled is False


def test_two_keys_of_one_name_are_refused() -> None:
    key = f'[[keys]]\nname = "a"\nsha256 = "{"0" * 64}"\n'
    assert "line 7: two entries of keys are called 'a'. Rename one" in error_of(key + key)


def test_a_public_address_accepts_every_host_unless_hosts_are_listed() -> None:
    key = f'[[keys]]\nname = "a"\nsha256 = "{"0" * 64}"\n'
    assert load_text(key, host="0.0.0.0").config.server.hosts == ("*",)
    assert load_text(key + "[server]\nhosts = ['h']\n", host="0.0.0.0").config.server.hosts == ("h",)
    assert "*" not in load_text(key, host="::1").config.server.hosts


def test_a_given_file_is_read_and_otherwise_the_default_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DefinitionError, match="no engine is configured"):
        load_config(None, {})
    (tmp_path / "ferrule.toml").write_text("\ufeff" + ENGINE, encoding="utf-8")
    assert load_config(None, {}).config.engines[0].name == "e"
    (tmp_path / "other.toml").write_text(ENGINE.replace(".e]", ".o]"), encoding="utf-8")
    assert load_config("other.toml", {}).config.engines[0].name == "o"
    with pytest.raises(DefinitionError, match=r"none.toml cannot be read: No such file"):
        load_config("none.toml", {})
    (tmp_path / "latin.toml").write_bytes(b"# \xff\n")
    with pytest.raises(DefinitionError, match="not UTF-8"):
        load_config("latin.toml", {})


@given(st.text(max_size=60))
def test_any_text_raises_nothing_but_a_definition_error(text: str) -> None:
    with pytest.raises(DefinitionError):
        parse_config(f"[server]\nport = -1\n{text}", "ferrule.toml", {})
