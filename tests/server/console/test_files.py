from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.server.console.files import read_files, takes_gzip
from server.console.built import MARK, PAGE, SCRIPT, SCRIPT_PATH, built


def test_every_file_is_known_by_its_path_and_its_compressed_form_goes_with_it(tmp_path: Path) -> None:
    files = read_files(built(tmp_path))
    assert set(files) == {"index.html", SCRIPT_PATH, "mark.svg"}
    assert [files[name].body for name in ("index.html", SCRIPT_PATH, "mark.svg")] == [PAGE, SCRIPT, MARK]
    assert gzip.decompress(files[SCRIPT_PATH].compressed) == SCRIPT
    assert files["mark.svg"].compressed == b""
    assert {name for name, one in files.items() if one.is_hashed} == {SCRIPT_PATH}


def test_where_nothing_was_built_there_are_no_files(tmp_path: Path) -> None:
    assert read_files(tmp_path / "nowhere") == {}


# Without the hour in it, which would name the test after the moment at which it was collected.
@pytest.mark.parametrize(
    "left",
    [gzip.compress(b"of an earlier build", mtime=0), b"", b"short", gzip.compress(SCRIPT, mtime=0)[:-9]],
    ids=["earlier", "empty", "short", "cut off"],
)
def test_a_compressed_file_of_other_bytes_is_passed_over(tmp_path: Path, left: bytes) -> None:
    folder = built(tmp_path)
    (folder / f"{SCRIPT_PATH}.gz").write_bytes(left)
    files = read_files(folder)
    assert files[SCRIPT_PATH].compressed == b""
    assert f"{SCRIPT_PATH}.gz" not in files


def test_what_is_hidden_or_leads_elsewhere_is_not_taken(tmp_path: Path) -> None:
    folder = built(tmp_path)
    (tmp_path / "secret.txt").write_text("secret")
    (folder / ".env").write_text("secret")
    (folder / ".vite").mkdir()
    (folder / ".vite" / "manifest.json").write_text("{}")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "up").symlink_to(tmp_path)
    assert set(read_files(folder)) == {"index.html", SCRIPT_PATH, "mark.svg"}


@pytest.mark.parametrize(
    "name, kind",
    [
        ("a.js", "text/javascript; charset=utf-8"),
        ("a.css", "text/css; charset=utf-8"),
        ("a.svg", "image/svg+xml"),
        ("a.woff2", "font/woff2"),
        ("a.unheard", "application/octet-stream"),
        ("a", "application/octet-stream"),
    ],
)
def test_the_kind_of_a_file_follows_from_its_name_on_every_machine(tmp_path: Path, name: str, kind: str) -> None:
    (tmp_path / name).write_bytes(b"x")
    assert read_files(tmp_path)[name].media_type == kind


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
def test_only_a_name_with_a_hash_in_it_stands_for_the_same_bytes_for_ever(
    tmp_path: Path, name: str, is_hashed: bool
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"x")
    assert read_files(tmp_path)[name].is_hashed is is_hashed


@pytest.mark.parametrize(
    "header, takes",
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
def test_gzip_is_for_who_takes_it(header: str, takes: bool) -> None:
    assert takes_gzip(header) is takes


@given(st.text(max_size=60))
def test_any_text_says_whether_gzip_is_taken(header: str) -> None:
    assert takes_gzip(header) in (True, False)
