from __future__ import annotations

from pathlib import Path

import pytest

from ferrule.engines.profile import Finding, Profile, Verdict, find_profile, load_profile, profile_path, save_profile
from ferrule.errors import DefinitionError

PROFILE = Profile("http://one:1", "small", "2026-01-31", (Finding("required", Verdict.IGNORED, "It made no call."),))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_what_was_saved_is_loaded_for_that_address_and_model_only(cache: Path) -> None:
    path = save_profile(PROFILE)
    assert path.parent == cache / "ferrule" / "doctor"
    assert load_profile("http://one:1", "small") == PROFILE
    assert load_profile("http://one:1/v1/", "small") == PROFILE
    assert load_profile("http://one:1", "large") is None
    assert load_profile("http://two:1", "small") is None
    assert list(path.parent.iterdir()) == [path]


def test_a_later_profile_replaces_the_earlier() -> None:
    save_profile(PROFILE)
    later = Profile(PROFILE.url, PROFILE.model, "2026-02-01")
    save_profile(later)
    assert load_profile(PROFILE.url, PROFILE.model) == later


def test_without_a_model_the_newest_of_the_address_is_found() -> None:
    assert find_profile("http://one:1") is None
    save_profile(PROFILE).with_name("damaged.json").write_text("{")
    later = Profile(PROFILE.url, "large", "2026-02-01")
    save_profile(later)
    save_profile(Profile("http://two:1", "large", "2026-03-01"))
    assert find_profile("http://one:1/v1") == later
    assert find_profile("http://one:1", "small") == PROFILE
    assert find_profile("http://three:1") is None


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"url": 1}', "\udcff"])
def test_a_damaged_file_counts_as_missing(damage: str) -> None:
    save_profile(PROFILE).write_bytes(damage.encode("utf-8", "surrogateescape"))
    assert load_profile(PROFILE.url, PROFILE.model) is None


@pytest.mark.parametrize("value", ["", "not/absolute"])
def test_without_an_absolute_cache_directory_it_is_the_users_own(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", value)
    assert profile_path("u", "m").is_relative_to(Path.home() / ".cache" / "ferrule" / "doctor")


def test_an_unwritable_directory_is_reported_with_a_hint(cache: Path) -> None:
    (cache / "ferrule").write_text("a file in the way")
    with pytest.raises(DefinitionError) as refusal:
        save_profile(PROFILE)
    assert "--no-save" in refusal.value.hint
