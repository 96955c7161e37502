from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.server.console.files import accepts_gzip, read_files
from server.console.built import LOGO, PAGE, SCRIPT, SCRIPT_PATH, write_build


def test_files_are_read_by_path_together_with_their_compressed_form(tmp_path: Path) -> None:
    files = read_files(write_build(tmp_path))
    assert set(files) == {"index.html", SCRIPT_PATH, "mark.svg"}
    assert [files[name].body for name in ("index.html", SCRIPT_PATH, "mark.svg")] == [PAGE, SCRIPT, LOGO]
    assert gzip.decompress(files[SCRIPT_PATH].compressed) == SCRIPT
    assert files["mark.svg"].compressed == b""
    assert {name for name, one in files.items() if one.is_hashed} == {SCRIPT_PATH}


def test_without_a_build_there_are_no_files(tmp_path: Path) -> None:
    assert read_files(tmp_path / "nowhere") == {}


# mtime=0, because the bytes are part of the test ID and must not depend on the time.
@pytest.mark.parametrize(
    "old_file",
    [gzip.compress(b"of an earlier build", mtime=0), b"", b"short", gzip.compress(SCRIPT, mtime=0)[:-9]],
    ids=["earlier", "empty", "short", "cut off"],
)
def test_a_compressed_file_of_another_build_is_ignored(tmp_path: Path, old_file: bytes) -> None:
    folder = write_build(tmp_path)
    (folder / f"{SCRIPT_PATH}.gz").write_bytes(old_file)
    files = read_files(folder)
    assert files[SCRIPT_PATH].compressed == b""
    assert f"{SCRIPT_PATH}.gz" not in files


def test_hidden_files_and_links_are_ignored(tmp_path: Path) -> None:
    folder = write_build(tmp_path)
    (tmp_path / "secret.txt").write_text("secret")
    (folder / ".env").write_text("secret")
    (folder / ".vite").mkdir()
    (folder / ".vite" / "manifest.json").write_text("{}")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "up").symlink_to(tmp_path)
    assert set(read_files(folder)) == {"index.html", SCRIPT_PATH, "mark.svg"}


@pytest.mark.parametrize(
    "name, media_type",
    [
        ("a.js", "text/javascript; charset=utf-8"),
        ("a.css", "text/css; charset=utf-8"),
        ("a.svg", "image/svg+xml"),
        ("a.woff2", "font/woff2"),
        ("a.unheard", "application/octet-stream"),
        ("a", "application/octet-stream"),
    ],
)
def test_the_media_type_depends_only_on_the_file_name(tmp_path: Path, name: str, media_type: str) -> None:
    (tmp_path / name).write_bytes(b"x")
    assert read_files(tmp_path)[name].media_type == media_type


@pytest.mark.parametrize(
    "name, is_hashed",
    [
        ("assets/index-Dk3fQ9_x.js", True),
        ("assets/style-B-_0aZ19.css", True),
        ("assets/logo.svg", False),
        ("index-Dk3fQ9_x.js", False),
        ("index.html", False),
    ],
)
def test_only_assets_with_a_hash_in_their_name_are_immutable(tmp_path: Path, name: str, is_hashed: bool) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"x")
    assert read_files(tmp_path)[name].is_hashed is is_hashed


@pytest.mark.parametrize(
    "header, is_accepted",
    [
        ("gzip", True),
        ("gzip, deflate, br, zstd", True),
        ("br;q=1.0, GZIP;q=0.8, *;q=0.1", True),
        ("*", True),
        ("*, gzip;q=0", False),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("gzip;q=0.001", True),
        ("identity", False),
        ("gzipped", False),
        ("", False),
    ],
)
def test_accept_encoding_decides_about_gzip(header: str, is_accepted: bool) -> None:
    assert accepts_gzip(header) is is_accepted


@given(st.text(max_size=60))
def test_any_accept_encoding_is_handled(header: str) -> None:
    assert accepts_gzip(header) in (True, False)
