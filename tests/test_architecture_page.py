"""The architecture page shows the packages as they are."""

from pathlib import Path

from support import architecture_picture


def test_the_picture_of_the_packages_is_that_of_the_packages():
    page = (Path(__file__).parents[1] / "docs/architecture.md").read_text()
    assert architecture_picture.draw() in page, "run tests/support/architecture_picture.py and put its output there"


def test_the_picture_names_every_package_once():
    picture = architecture_picture.draw()
    packages = [path.parent for path in architecture_picture.PACKAGE.rglob("__init__.py")]
    inner = [path.name for path in packages if path != architecture_picture.PACKAGE and path.name != "migrations"]
    assert all(picture.count(f" {name}/ ") == 1 for name in inner)
