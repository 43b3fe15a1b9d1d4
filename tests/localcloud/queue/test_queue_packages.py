"""What Lambda brings is linked to where it really lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadproof.localcloud.queue.packages import link_packages


def test_a_package_in_an_environment_behind_a_link_is_linked_to_its_own_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function's sandbox has a /tmp of its own: a link that lies there would lead nowhere."""
    package = tmp_path / "real" / "packed_for_a_test"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (tmp_path / "linked").symlink_to(tmp_path / "real")
    monkeypatch.syspath_prepend(tmp_path / "linked")
    link_packages(tmp_path / "runtime", ("packed_for_a_test",))
    assert (tmp_path / "runtime" / "packed_for_a_test").readlink() == package
