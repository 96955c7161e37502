"""Profile files: one JSON file for each endpoint and model, in the user's cache directory."""

from __future__ import annotations

import os
from pathlib import Path

from ferrule.core.json_text import dumps, fingerprint, loads
from ferrule.engines.profile import Profile
from ferrule.errors import DefinitionError


def endpoint(url: str) -> str:
    """Return the address without a trailing slash or version, so that equal endpoints compare equal."""
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def profile_path(url: str, model: str) -> Path:
    """Return the file of a profile. `XDG_CACHE_HOME` is used only if it is absolute, as its specification demands."""
    xdg_cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    cache = xdg_cache if xdg_cache.is_absolute() else Path.home() / ".cache"
    return cache / "ferrule" / "doctor" / f"{fingerprint([endpoint(url), model])}.json"


def save_profile(profile: Profile) -> Path:
    """Write the profile to a temporary file and move it into place, so that no reader sees half of it."""
    path = profile_path(profile.url, profile.model)
    temporary = path.with_suffix(f".{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(dumps(profile.as_dict()) + "\n", encoding="utf-8")
        temporary.replace(path)
    except OSError as failure:
        raise DefinitionError(
            f"cannot save the profile: {failure}", code="not_saved", hint="Set XDG_CACHE_HOME, or pass --no-save."
        ) from failure
    return path


def find_profile(url: str, model: str = "") -> Profile | None:
    """Return the last profile of the model at the address; without a model, the newest profile of the address."""
    if model:
        return load_profile(url, model)
    profiles = filter(None, map(_read, sorted(profile_path(url, model).parent.glob("*.json"))))
    return max(
        (profile for profile in profiles if endpoint(profile.url) == endpoint(url)),
        key=lambda profile: profile.date,
        default=None,
    )


def continuation_cost_at(url: str, model: str, default: float | None) -> float | None:
    """Return the cost of one more request at the address, in tokens: the measured cost, or else the default."""
    profile = find_profile(url, model)
    return default if profile is None or profile.continuation_cost is None else profile.continuation_cost


def load_profile(url: str, model: str) -> Profile | None:
    """Return the last profile of the model at the address; None if there is none or it cannot be read."""
    return _read(profile_path(url, model))


def _read(path: Path) -> Profile | None:
    try:
        return Profile.from_dict(loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, DefinitionError):
        # This is a cache: a damaged file counts as missing, and the next examination replaces it.
        return None
