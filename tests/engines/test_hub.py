"""`hf:` finds one GGUF file on a hub, downloads it whole, and says what to do where that does not work."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from ferrule import DefinitionError, EngineError
from ferrule.engines.hub import HubModel, fetch_model
from ferrule.engines.registry import check_engine_spec, load_engine
from ferrule.errors import EngineAccessError, EngineModelError, EngineUnavailableError
from lab.loopback_hub import COMMIT, Hub, loopback_hub

REPOSITORY = "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hub") / "model.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 0) + os.urandom(3_000_000))
    return path


@pytest.fixture
def hub(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    with loopback_hub(Hub({"coder-q4_k_m.gguf": file, "coder-q8_0.gguf": file, "README.md": file})) as started:
        yield started


def fetch(hub: Hub, tmp_path: Path, model: str = REPOSITORY) -> Path:
    return fetch_model(HubModel.parse(model), hub=hub.url, cache=str(tmp_path / "cache"))


def test_the_file_is_downloaded_once_and_is_the_one_on_the_hub(hub: Hub, file: Path, tmp_path: Path) -> None:
    path = fetch(hub, tmp_path)
    assert (path.name, path.read_bytes()) == ("coder-q4_k_m.gguf", file.read_bytes())
    downloads = [request for request in hub.requests if "/resolve/" in request[1]]
    assert fetch(hub, tmp_path) == path
    assert [request for request in hub.requests if "/resolve/" in request[1]] == downloads


def test_a_broken_download_is_continued_where_it_ended(hub: Hub, file: Path, tmp_path: Path) -> None:
    # huggingface_hub reads 10 MB at a time.
    large = tmp_path / "large.gguf"
    large.write_bytes(file.read_bytes() * 8)
    hub.files, hub.breaks_after = {"large.gguf": large}, 15_000_000
    assert fetch(hub, tmp_path).read_bytes() == large.read_bytes()
    assert any(bytes_range for _, _, bytes_range in hub.requests)


def test_a_damaged_download_is_deleted_and_the_next_attempt_downloads_again(
    hub: Hub, file: Path, tmp_path: Path
) -> None:
    hub.damages = True
    with pytest.raises(EngineError, match="SHA-256") as caught:
        fetch(hub, tmp_path)
    assert caught.value.code == "bad_model_file"
    hub.damages = False
    assert fetch(hub, tmp_path).read_bytes() == file.read_bytes()


def test_a_file_that_changed_on_this_disk_is_compared_again(hub: Hub, file: Path, tmp_path: Path) -> None:
    path = fetch(hub, tmp_path).resolve()
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(EngineError, match="SHA-256"):
        fetch(hub, tmp_path)


def test_a_machine_without_a_network_uses_what_it_has(hub: Hub, tmp_path: Path) -> None:
    path = fetch(hub, tmp_path)
    hub.url = "http://127.0.0.1:9"
    assert fetch(hub, tmp_path) == path
    with pytest.raises(EngineUnavailableError, match=r"127\.0\.0\.1:9 cannot be reached") as caught:
        fetch(hub, tmp_path, "other/model-GGUF")
    assert "llama:PATH" in caught.value.hint


def test_offline_no_hub_is_asked(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.constants

    path = fetch(hub, tmp_path)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    asked = len(hub.requests)
    assert fetch(hub, tmp_path) == path
    assert fetch(hub, tmp_path, f"{REPOSITORY}:coder-q4_k_m.gguf") == path
    with pytest.raises(EngineModelError, match=r"no file of .* fits 'Q8_0'"):
        fetch(hub, tmp_path, f"{REPOSITORY}:Q8_0")
    with pytest.raises(EngineUnavailableError, match="HF_HUB_OFFLINE is set") as caught:
        fetch(hub, tmp_path, "other/model-GGUF")
    assert "copy the .gguf file" in caught.value.hint
    assert len(hub.requests) == asked


def test_a_revision_is_a_branch_a_tag_or_a_commit(hub: Hub, tmp_path: Path) -> None:
    hub.revisions = ("main", "v1")
    assert fetch(hub, tmp_path, f"{REPOSITORY}@v1:q8_0").name == "coder-q8_0.gguf"
    assert fetch(hub, tmp_path, f"{REPOSITORY}@{COMMIT}").name == "coder-q4_k_m.gguf"
    with pytest.raises(EngineModelError, match="no revision 'v2'"):
        fetch(hub, tmp_path, f"{REPOSITORY}@v2")


def test_an_unknown_repository_and_a_gated_one_say_what_to_do(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(EngineModelError, match="no model other/name") as unknown:
        fetch(hub, tmp_path, "other/name")
    assert "HF_TOKEN" in unknown.value.hint
    hub.gated = True
    with pytest.raises(EngineAccessError, match="accept its terms") as gated:
        fetch(hub, tmp_path)
    assert f"{hub.url}/{REPOSITORY}" in gated.value.hint


def test_a_disk_without_space_is_found_before_the_download(hub: Hub, tmp_path: Path) -> None:
    hub.claimed_size = 1 << 60
    with pytest.raises(EngineError, match="of disk space") as caught:
        fetch(hub, tmp_path)
    assert (caught.value.code, "HF_HOME" in caught.value.hint) == ("no_disk_space", True)
    assert not [path for _, path, _ in hub.requests if "/resolve/" in path]


@pytest.mark.parametrize(
    "pattern, files, chosen",
    [
        ("", ("m-Q8_0.gguf", "m-Q4_K_M.gguf", "m-Q2_K.gguf"), "m-Q4_K_M.gguf"),
        ("", ("only-Q2_K.gguf", "mmproj-F16.gguf", "README.md"), "only-Q2_K.gguf"),
        ("q8_0", ("m-Q8_0.gguf", "m-Q4_K_M.gguf"), "m-Q8_0.gguf"),
        ("Q4_K", ("m-Q4_K_M.gguf", "m.Q4_K.gguf"), "m.Q4_K.gguf"),
        ("*q6*", ("m-Q6_K.gguf", "m-Q4_K_M.gguf"), "m-Q6_K.gguf"),
        ("m-Q8_0.gguf", ("m-Q8_0.gguf", "big/m-Q8_0-x.gguf"), "m-Q8_0.gguf"),
        ("", ("m-Q4_K_M-00002-of-00002.gguf", "m-Q4_K_M-00001-of-00002.gguf"), "m-Q4_K_M-00001-of-00002.gguf"),
        ("", ("Q4_K_M/m-00001-of-00002.gguf", "Q4_K_M/m-00002-of-00002.gguf", "Q8_0/m.gguf"), "m-00001-of-00002.gguf"),
    ],
)
def test_one_file_is_chosen(
    hub: Hub, file: Path, tmp_path: Path, pattern: str, files: tuple[str, ...], chosen: str
) -> None:
    hub.files = dict.fromkeys(files, file)
    path = fetch(hub, tmp_path, f"{REPOSITORY}:{pattern}" if pattern else REPOSITORY)
    assert path.name == chosen
    parts = [name for name in files if "-of-" in name]
    folder = tmp_path / "cache" / f"models--{REPOSITORY.replace('/', '--')}" / "snapshots" / COMMIT
    assert all((folder / name).exists() for name in parts)


@pytest.mark.parametrize(
    "pattern, files, message",
    [
        ("", ("a-Q4_K_M.gguf", "b-Q4_K_M.gguf"), "2 files of"),
        ("", ("a.gguf", "b.gguf"), "2 files of"),
        ("*", ("a.gguf", "b.gguf"), r"2 files of .* fit '\*'"),
        ("Q3", ("a-Q4_K_M.gguf",), "no file of .* fits 'Q3'"),
        ("", ("model.safetensors",), "has no GGUF file"),
    ],
)
def test_what_is_not_clear_is_refused_with_the_list_of_files(
    hub: Hub, file: Path, tmp_path: Path, pattern: str, files: tuple[str, ...], message: str
) -> None:
    hub.files = dict.fromkeys(files, file)
    with pytest.raises(EngineModelError, match=message) as caught:
        fetch(hub, tmp_path, f"{REPOSITORY}:{pattern}" if pattern else REPOSITORY)
    assert files[0].endswith("safetensors") or files[0] in caught.value.hint


@pytest.mark.parametrize("text", ["model", "a/b/c", "/etc/passwd", "../..", "a/b@", "a/b@../../x", "a/b c", "C:\\x"])
def test_what_names_no_repository_is_refused_before_anything_is_asked(text: str) -> None:
    with pytest.raises(DefinitionError, match="repository") as caught:
        check_engine_spec(f"hf:{text}")
    assert "hf:OWNER/NAME" in caught.value.hint
    with pytest.raises(DefinitionError):
        load_engine(f"hf:{text}")


def test_the_model_is_named_after_its_repository() -> None:
    assert HubModel.parse(REPOSITORY).name == "Qwen2.5-Coder-0.5B-Instruct"
    assert HubModel.parse("a/b@v1:x*y") == HubModel("a/b", "v1", "x*y")
