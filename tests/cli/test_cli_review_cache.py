"""The cache of templates between reviews."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loadproof.sides.cache import Cache, cache_folder

ONE, TWO, THREE = ("a" * 64, "b" * 64, "c" * 64)


def test_what_was_put_is_found(tmp_path: Path) -> None:
    """By its key and no other."""
    cache = Cache(tmp_path)
    cache.put(ONE, {"stack": {"Resources": {}}})
    assert (cache.get(ONE), cache.get(TWO)) == ({"stack": {"Resources": {}}}, None)


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    """Three entries, room for two; the oldest was read again, so the second goes."""
    cache = Cache(tmp_path)
    for at, key in enumerate((ONE, TWO, THREE)):
        cache.put(key, {})
        (file,) = tmp_path.rglob(f"{key}*")
        os.utime(file, (1000 + at, 1000 + at))
    cache.get(ONE)
    Cache(tmp_path, most_bytes=2 * file.stat().st_size).trim()
    assert [cache.get(key) for key in (ONE, TWO, THREE)] == [{}, None, {}]


def test_an_entry_under_another_name_is_none(tmp_path: Path) -> None:
    """Content tells its key: a file that was moved is not believed."""
    cache = Cache(tmp_path)
    cache.put(ONE, {})
    (file,) = tmp_path.rglob("*.gz")
    other = tmp_path / TWO[:2] / f"{TWO}.json.gz"
    other.parent.mkdir()
    file.rename(other)
    assert cache.get(TWO) is None


@pytest.mark.parametrize("content", [b"", b"not packed", b"\x1f\x8b\x08\x00"])
def test_damage_is_a_miss(tmp_path: Path, content: bytes) -> None:
    """Cut off, empty, or something else: made again, and told to nobody."""
    cache = Cache(tmp_path)
    cache.put(ONE, {})
    (file,) = tmp_path.rglob("*.gz")
    file.write_bytes(content)
    assert cache.get(ONE) is None


def test_a_place_that_cannot_be_written_costs_time_only(tmp_path: Path) -> None:
    """A file stands where the folder would be."""
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file" / "folder")
    cache.put(ONE, {})
    cache.trim()
    assert cache.get(ONE) is None


def test_without_a_folder_nothing_is_kept(tmp_path: Path) -> None:
    """`--no-cache`."""
    cache = Cache(None)
    cache.put(ONE, {})
    cache.trim()
    assert cache.get(ONE) is None


def test_where_the_cache_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """LOADPROOF_CACHE, else XDG_CACHE_HOME, else ~/.cache."""
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("LOADPROOF_CACHE", raising=False)
    assert cache_folder() == Path("/home/somebody/.cache/loadproof/review")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache_folder() == Path("/caches/loadproof/review")
    monkeypatch.setenv("LOADPROOF_CACHE", "/mine")
    assert cache_folder() == Path("/mine/review")
