"""Hub: finds a GGUF model on a Hugging Face hub and downloads it. The only module that uses huggingface_hub.

huggingface_hub keeps the files in its own cache (`HF_HOME`), which other programs share, and reads `HF_ENDPOINT`,
`HF_HUB_OFFLINE` and `HF_TOKEN`. It compares only the size of what it downloads: the SHA-256 that the hub publishes is
compared here, once for each file.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, cast

from ferrule.core.json_text import dumps
from ferrule.engines.cache_folder import cache_folder
from ferrule.errors import (
    DefinitionError,
    EngineAccessError,
    EngineError,
    EngineModelError,
    EngineUnavailableError,
    UnsupportedError,
)

_GGUF = ".gguf"
# Files that belong to a model and are none: the projector for images, and the data for making quantizations.
_PARTS_OF_MODELS = re.compile(r"(?:^|[-_./])(?:mmproj|imatrix)(?:[-_.]|$)", re.IGNORECASE)
_SHARD = re.compile(r"-(\d{5})-of-\d{5}(?=\.gguf$)", re.IGNORECASE)
_MAIN = "main"
# Small enough for most machines first; better ones lose little, and smaller ones lose words.
QUANTIZATIONS = ("Q4_K_M", "Q4_K_S", "Q4_0", "Q4_1", "Q5_K_M", "Q5_K_S", "Q6_K", "IQ4_XS", "Q8_0", "F16", "BF16")
"""The quantizations that are chosen if none is named, best first."""
_REPOSITORY = re.compile(r"[\w.\-]+/[\w.\-]+")
_LISTED = 12
_PIECE = 1 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ADDRESS = "https://huggingface.co"
_LOCAL_PATH = "llama:PATH takes a file that is on this machine."


@dataclass(frozen=True, slots=True)
class HubModel:
    """What `hf:OWNER/NAME@REVISION:PATTERN` names. The revision and the pattern may be missing."""

    repository: str
    revision: str = _MAIN
    pattern: str = ""

    @staticmethod
    def parse(text: str) -> HubModel:
        """Parse the part after `hf:`; `DefinitionError` if it does not name a repository."""
        place, _, pattern = text.partition(":")
        repository, at, revision = place.partition("@")
        if not _REPOSITORY.fullmatch(repository) or ".." in place or (at and not revision):
            raise DefinitionError(
                f"{text!r} does not name a repository of models",
                hint="Write hf:OWNER/NAME, hf:OWNER/NAME:Q8_0 or hf:OWNER/NAME@REVISION:FILE.gguf. " + _LOCAL_PATH,
            )
        return HubModel(repository, revision or _MAIN, pattern)

    @property
    def name(self) -> str:
        """The repository's name without its owner."""
        return re.sub(r"[-_]gguf$", "", self.repository.partition("/")[2], flags=re.IGNORECASE)

    def __str__(self) -> str:
        return self.repository + (f"@{self.revision}" if self.revision != _MAIN else "")


@dataclass(frozen=True, slots=True)
class _HubFile:
    path: str
    size: int = 0
    sha256: str = ""


def fetch_model(model: HubModel, *, hub: str = "", cache: str = "") -> Path:
    """Return the path of the model's file, or of its first part, after downloading what is missing.

    `hub` is the URL of a hub, by default `HF_ENDPOINT` or huggingface.co; `cache` the folder for the files.
    """
    library = _library()
    address = (hub or os.environ.get("HF_ENDPOINT", "") or _ADDRESS).rstrip("/")
    folder = Path(cache or str(library.constants.HF_HUB_CACHE))
    kept = _kept_files(folder, model)
    if library.constants.is_offline_mode():
        return _kept_model(model, kept, "HF_HUB_OFFLINE is set")
    try:
        with _hub_errors(library, model, address):
            revision, files = _list_files(library, model, address)
    except EngineUnavailableError as unreachable:
        if not kept:
            raise
        return _kept_model(model, kept, unreachable.message)
    chosen = choose_files(model, files)
    _require_space(folder, model, [file for file in chosen if file.path not in kept])
    with _hub_errors(library, model, address):
        paths = [
            Path(
                library.hf_hub_download(
                    model.repository, file.path, revision=revision, cache_dir=folder, endpoint=address
                )
            )
            for file in chosen
        ]
    for path, file in zip(paths, chosen, strict=True):
        _verify(path, file.sha256)
    _remember(folder, model, revision)
    return paths[0]


def choose_files(model: HubModel, files: Iterable[_HubFile]) -> list[_HubFile]:
    """Choose the files of one model: those that the pattern fits, or else the best known quantization."""
    models: dict[str, list[_HubFile]] = {}
    for file in sorted(files, key=lambda one: one.path):
        if file.path.lower().endswith(_GGUF) and not _PARTS_OF_MODELS.search(file.path):
            models.setdefault(_SHARD.sub("", file.path), []).append(file)
    if not models:
        raise EngineModelError(
            f"{model} has no GGUF file",
            hint="Name a repository of the model's GGUF files; their names often end with -GGUF.",
        )
    fitting = _matching(models, model.pattern) if model.pattern else _best_quantization(models)
    if len(fitting) == 1:
        return models[fitting[0]]
    listed = ", ".join([*models][:_LISTED]) + (", ..." if len(models) > _LISTED else "")
    if not fitting:
        raise EngineModelError(
            f"no file of {model} fits {model.pattern!r}", hint=f"Name one of its files after a colon: {listed}."
        )
    example = PurePosixPath(fitting[0]).name
    problem = f"{len(fitting)} files of {model} fit" + (f" {model.pattern!r}" if model.pattern else "")
    raise EngineModelError(problem, hint=f"Name one, as in hf:{model}:{example}. There are: {listed}.")


def _matching(models: Mapping[str, object], pattern: str) -> list[str]:
    """The models that the pattern names: by their whole path, their file name, a glob, or a quantization."""
    wanted = _SHARD.sub("", pattern).lower()
    word = re.compile(rf"(?:^|[-_./]){re.escape(wanted)}(?:[-./]|$)")
    tests: tuple[Callable[[str], bool], ...] = (
        lambda path: path == wanted,
        lambda path: PurePosixPath(path).name == wanted,
        lambda path: bool(word.search(path.removesuffix(_GGUF))),
        lambda path: fnmatchcase(path, wanted) or fnmatchcase(PurePosixPath(path).name, wanted),
    )
    for test in tests:
        if fitting := [path for path in models if test(path.lower())]:
            return fitting
    return []


def _best_quantization(models: Mapping[str, object]) -> list[str]:
    if len(models) == 1:
        return [*models]
    for name in QUANTIZATIONS:
        if fitting := _matching(models, name):
            return fitting
    return [*models]


def _library() -> Any:
    try:
        import huggingface_hub
        import huggingface_hub.constants  # pyright: ignore[reportUnusedImport]
        import huggingface_hub.errors  # pyright: ignore[reportUnusedImport]
    except ImportError as missing:
        raise UnsupportedError(
            "huggingface_hub is not installed", code="missing_package", hint='pip install "ferrule[hf]"'
        ) from missing
    return cast("Any", huggingface_hub)


def _list_files(library: Any, model: HubModel, address: str) -> tuple[str, list[_HubFile]]:
    """The commit of the revision, and its files. The commit, so that all parts of a model are of one."""
    info = library.HfApi(endpoint=address).model_info(model.repository, revision=model.revision, files_metadata=True)
    files = [
        _HubFile(str(one.rfilename), int(one.size or 0), str(getattr(one.lfs, "sha256", "") or "") if one.lfs else "")
        for one in info.siblings or ()
    ]
    return str(info.sha or model.revision), files


@contextmanager
def _hub_errors(library: Any, model: HubModel, address: str) -> Generator[None]:
    """Turn the library's errors into ours, which say what to do."""
    import httpx2

    errors = library.errors
    page = f"{address}/{model.repository}"
    try:
        yield
    except errors.GatedRepoError as refusal:
        raise EngineAccessError(
            f"{model} asks you to accept its terms first",
            hint=f"Accept them at {page}, then set HF_TOKEN to a token of yours, or run `hf auth login`.",
        ) from refusal
    except errors.RevisionNotFoundError as refusal:
        raise EngineModelError(
            f"{model.repository} has no revision {model.revision!r}",
            hint=f"Use a branch, a tag or a commit that {page}/tree/main shows, or none for main.",
        ) from refusal
    except errors.RepositoryNotFoundError as refusal:
        # A hub does not say whether a repository that the caller may not see exists.
        raise EngineModelError(
            f"{address} has no model {model.repository}, or it is private",
            hint="Check the name. For a private model, set HF_TOKEN to a token that may read it.",
        ) from refusal
    except errors.LocalEntryNotFoundError as failure:
        raise _unreachable(address, str(failure.__cause__ or failure)) from failure
    except errors.HfHubHTTPError as failure:
        status = failure.response.status_code
        if status in (401, 403):
            raise EngineAccessError(
                f"{address} refuses the token for {model} (HTTP {status})",
                hint="Set HF_TOKEN to a valid token, or unset it for a public model.",
                upstream_status=status,
            ) from failure
        raise _unreachable(address, f"HTTP {status}") from failure
    except (httpx2.HTTPError, ConnectionError, TimeoutError) as failure:
        raise _unreachable(address, str(failure) or type(failure).__name__) from failure
    except OSError as failure:
        if failure.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise _unreachable(address, str(failure)) from failure
        raise EngineError(
            f"the disk is full: {model} could not be stored",
            code="no_disk_space",
            hint="Free some space, or set HF_HOME to a folder on another disk.",
        ) from failure


def _unreachable(address: str, problem: str) -> EngineUnavailableError:
    first = problem.strip().partition("\n")[0][:200]
    return EngineUnavailableError(
        f"the hub at {address} cannot be reached: {first}",
        hint="Check the connection and HF_ENDPOINT. Without a network, copy the .gguf file here and use llama:PATH.",
    )


def _require_space(folder: Path, model: HubModel, missing: list[_HubFile]) -> None:
    """Raise before the download, not after half of it."""
    needed = sum(file.size for file in missing)
    parent = next((path for path in (folder, *folder.parents) if path.exists()), Path("/"))
    free = shutil.disk_usage(parent).free
    if needed > free:
        raise EngineError(
            f"{model} needs {_gigabytes(needed)} of disk space, and {parent} has {_gigabytes(free)}",
            code="no_disk_space",
            hint=f"Free some space, set HF_HOME to a folder on another disk, or name a smaller file: hf:{model}:Q4_0.",
        )


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.2f} GB"


def _verify(path: Path, sha256: str) -> None:
    """Compare a file with the hash that the hub publishes, unless the same file was compared before."""
    if not _SHA256.fullmatch(sha256):
        return
    blob = path.resolve()
    state = blob.stat()
    proof = cache_folder("hub") / sha256
    shape = dumps([str(blob), state.st_size, state.st_mtime_ns])
    if _read(proof) == shape:
        return
    with blob.open("rb") as file:
        digest = hashlib.sha256()
        while piece := file.read(_PIECE):
            digest.update(piece)
    if digest.hexdigest() != sha256:
        # Deleted, so that the next attempt downloads it again.
        path.unlink(missing_ok=True)
        blob.unlink(missing_ok=True)
        raise EngineError(
            f"{path.name} was damaged on its way: its SHA-256 is not the published one",
            code="bad_model_file",
            hint="The file is deleted. Run the same again; if it repeats, check HF_ENDPOINT and proxies.",
        )
    try:
        proof.parent.mkdir(parents=True, exist_ok=True)
        proof.write_text(shape, encoding="utf-8")
    except OSError:
        # Without the note, the file is compared again next time.
        return


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _repository_folder(folder: Path, model: HubModel) -> Path:
    return folder / f"models--{model.repository.replace('/', '--')}"


def _kept_files(folder: Path, model: HubModel) -> dict[str, Path]:
    """The files of the revision that the cache has, by their path in the repository."""
    repository = _repository_folder(folder, model)
    commit = _read(repository / "refs" / model.revision).strip() or model.revision
    snapshot = repository / "snapshots" / commit
    if snapshot.parent != repository / "snapshots" or not snapshot.is_dir():
        return {}
    return {path.relative_to(snapshot).as_posix(): path for path in snapshot.rglob("*") if path.is_file()}


def _kept_model(model: HubModel, kept: Mapping[str, Path], reason: str) -> Path:
    """Choose among the files in the cache, because there is no hub to ask."""
    if not kept:
        raise EngineUnavailableError(
            f"{model} is not in the cache, and {reason}",
            hint=f"Download it once with a connection, or copy the .gguf file here. {_LOCAL_PATH}",
        )
    return kept[choose_files(model, [_HubFile(path) for path in kept])[0].path]


def _remember(folder: Path, model: HubModel, commit: str) -> None:
    """Write which commit a branch or a tag is, as huggingface_hub does, for machines without a network."""
    ref = _repository_folder(folder, model) / "refs" / model.revision
    if commit == model.revision or _read(ref) == commit:
        return
    ref.parent.mkdir(parents=True, exist_ok=True)
    ref.write_text(commit, encoding="utf-8")
