"""Where profiles are kept: a JSON file for each endpoint and model, in the user's cache directory."""

from __future__ import annotations

import os
from pathlib import Path

from ferrule.core.json_text import dumps, fingerprint, loads
from ferrule.engines.profile import Profile
from ferrule.errors import DefinitionError


def endpoint(url: str) -> str:
    """The address without what makes no difference: the slash and the version at its end."""
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def profile_path(url: str, model: str) -> Path:
    """`XDG_CACHE_HOME` is respected, as the specification of it says: only where it is absolute."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    cache = given if given.is_absolute() else Path.home() / ".cache"
    return cache / "ferrule" / "doctor" / f"{fingerprint([endpoint(url), model])}.json"


def save_profile(profile: Profile) -> Path:
    """Writes it beside and moves it, so that nobody reads half of it."""
    path = profile_path(profile.url, profile.model)
    beside = path.with_suffix(f".{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(dumps(profile.as_dict()) + "\n", encoding="utf-8")
        beside.replace(path)
    except OSError as failure:
        raise DefinitionError(
            f"the profile cannot be kept: {failure}", code="not_saved", hint="Set XDG_CACHE_HOME, or pass --no-save."
        ) from failure
    return path


def find_profile(url: str, model: str = "") -> Profile | None:
    """The last profile of that model at that address; without a model, the newest of that address."""
    if model:
        return load_profile(url, model)
    kept = filter(None, map(_read, sorted(profile_path(url, model).parent.glob("*.json"))))
    return max((one for one in kept if endpoint(one.url) == endpoint(url)), key=lambda one: one.date, default=None)


def price_at(url: str, model: str, believed: float | None) -> float | None:
    """What going on costs there, in tokens: as it was measured, or else as it is believed of engines of its kind."""
    found = find_profile(url, model)
    return believed if found is None or found.going_on is None else found.going_on


def load_profile(url: str, model: str) -> Profile | None:
    """The last profile of that model at that address; None where there is none, or none that can be read."""
    return _read(profile_path(url, model))


def _read(path: Path) -> Profile | None:
    try:
        return Profile.from_dict(loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, DefinitionError):
        # It is a cache: what is damaged is as good as absent, and the next examination replaces it.
        return None
