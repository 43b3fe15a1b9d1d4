"""What holds for every family that there is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from loadproof import catalog, families
from loadproof.families import FAMILIES
from loadproof.profiles import check_file

SHIPPED = ["tgi", "lmi", "vllm", "sglang", "custom"]


def test_families_come_in_the_order_that_they_say() -> None:
    """Messages and the schema list them so; one that is added is sorted in by its own word."""
    assert [name for name in FAMILIES if name in SHIPPED] == SHIPPED
    assert [family.listed for family in FAMILIES.values()] == sorted(family.listed for family in FAMILIES.values())


def test_a_family_that_is_none_or_missing_is_answered_with_all_that_are() -> None:
    """In the order of the list; a typing error with what may be meant."""
    *others, last = FAMILIES
    every = f"{', '.join(others)} or {last}"
    for container, said in (
        ("{family: tgy}", f"expected {every}, found `tgy`; did you mean `tgi`?"),
        ("{settings: {}}", f"required key `family` is missing; add `family:` with {every}"),
    ):
        problems = check_file(Path("chat.yaml"), f"name: chat\ncontainer: {container}\n".encode()).problems
        assert any(said in str(problem) for problem in problems), problems


def test_the_catalogs_images_speak_their_familys_protocol() -> None:
    """The catalog's column and the family's module say the same, and only a custom container has no image."""
    spoken = {image.family: image.protocol for image in catalog.container_images()}
    assert spoken == {family.name: family.protocol for family in FAMILIES.values() if family.image is not None}
    assert {family.name for family in FAMILIES.values() if family.image is None} == {"custom"}


def test_naming_a_setting_that_there_is_not_is_refused() -> None:
    """TGI has no `max_model_len`: a plan would fail on it much later."""
    with pytest.raises(TypeError, match="family tgi: TgiSettings has no max_model_len"):
        replace(FAMILIES["tgi"], longest_setting="max_model_len")


def test_a_module_without_a_family_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is left in the folder is not passed over in silence."""
    (tmp_path / "forgotten.py").write_text('"""Nothing."""\n', encoding="utf-8")
    monkeypatch.setattr(families, "__path__", [str(tmp_path)])
    with pytest.raises(TypeError, match="forgotten has no FAMILY of that name"):
        families._found()
