"""Classes of plugins as their source declares them, without an import: the same as an import would find."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import kconnect.builtin
from kconnect.api import SinkConnector, SourceConnector
from kconnect.runtime.plugins.plugin_info import kinds_of, version_reported
from kconnect.runtime.plugins.source_reading import ClassFacts, SourceReader
from kit.differences import hold_alike


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    assert not {name for name in set(sys.modules) - before if name.startswith("kcr_")}, "read, not imported"


def facts(folder: Path, text: str, name: str = "kcr_main") -> list[ClassFacts]:
    (folder / f"{name}.py").write_text(text)
    return SourceReader().classes_in(name)


@pytest.mark.parametrize(
    "text",
    [
        "from kconnect.api import SourceConnector\nclass A(SourceConnector): ...",
        "from kconnect.api import SourceConnector as Base\nclass A(Base): ...",
        "import kconnect.api\nclass A(kconnect.api.SourceConnector): ...",
        "import kconnect.api as k\nclass A(k.SourceConnector): ...",
        "from kconnect import api\nclass A(api.SourceConnector): ...",
        "from kconnect.api import *\nclass A(SourceConnector): ...",
        "from kcr_other import Base\nclass A(Base): ...",
        "from kcr_package import Base\nclass A(Base): ...",
        "import kcr_package.inner as inner\nclass A(inner.Base): ...",
        "from kcr_package import inner\nclass A(inner.Base): ...",
        "try:\n    from kcr_other import Base\nexcept ImportError:\n    Base = object\nclass A(Base): ...",
        "import abc\nfrom kcr_other import Mixed\nif True:\n    class A(Mixed, abc.ABC): ...",
    ],
)
def test_a_base_is_followed_however_it_was_imported(folder: Path, text: str) -> None:
    other = "from kconnect.api import SourceConnector\nclass Base(SourceConnector): ...\nclass Mixed(dict, Base): ..."
    (folder / "kcr_other.py").write_text(other)
    (folder / "kcr_package").mkdir()
    (folder / "kcr_package" / "__init__.py").write_text("from .inner import Base\n")
    (folder / "kcr_package" / "inner.py").write_text("from kcr_other import Base\n")
    (found,) = facts(folder, f"raise AssertionError\n{text}\n")
    assert found.bases == (SourceConnector,)


def test_what_is_no_plugin_has_no_base_of_ours(folder: Path) -> None:
    text = """
from threading import Thread
from kcr_nowhere import Base
from kconnect.api import NoSuchClass
from kcr_main import Circle
class A(Thread): ...
class B(Base): ...
class C(NoSuchClass): ...
class D(make()): ...
class E(Missing.Inner): ...
class Circle(Circle2): ...
Circle2 = Circle
class _Hidden(Thread): ...
"""
    assert [(one.name, one.bases) for one in facts(folder, text)] == [
        (name, ()) for name in ("A", "B", "C", "D", "E", "Circle")
    ]


def test_a_class_with_open_methods_is_abstract_and_one_that_closes_them_is_not(folder: Path) -> None:
    text = """
from kconnect.api import SinkConnector
class Base(SinkConnector):
    def start(self, props): ...
    def stop(self): ...
    def task_configs(self, max_tasks): ...
class Whole(Base):
    task_class = lambda self: None
    def config(self): ...
"""
    base, whole = facts(folder, text)
    assert (base.is_abstract, whole.is_abstract, whole.bases) == (True, False, (SinkConnector,))


def test_a_version_is_read_where_it_is_plain(folder: Path) -> None:
    (folder / "kcr_version.py").write_text("VERSION: str = '7'\n")
    text = """
from kconnect.api import Transformation
from kcr_version import VERSION
OWN = "2"
class Plain(Transformation):
    def version(self):
        "What it is."
        return "1"
class Constant(Transformation):
    def version(self): return OWN
class Imported(Transformation):
    def version(self): return VERSION
class Inherited(Imported): ...
class Computed(Transformation):
    def version(self): return "1" + OWN
class Silent(Transformation): ...
"""
    reported = {one.name: one.version for one in facts(folder, text)}
    expected = {
        "Plain": "1",
        "Constant": "2",
        "Imported": "7",
        "Inherited": "7",
        "Computed": None,
        "Silent": "undefined",
    }
    assert reported == expected


def test_a_file_that_python_cannot_read_is_an_error_with_its_line(folder: Path) -> None:
    with pytest.raises(SyntaxError) as caught:
        facts(folder, "class A:\n  def f(:\n")
    assert caught.value.lineno == 2


def test_every_class_of_ours_is_read_as_it_is() -> None:
    names = [info.name for info in pkgutil.walk_packages(kconnect.builtin.__path__, "kconnect.builtin.")]
    reader = SourceReader()

    def look(name: str) -> None:
        module = importlib.import_module(name)
        for found in reader.classes_in(name):
            real = getattr(module, found.name)
            assert found.is_abstract == inspect.isabstract(real), found
            assert kinds_of(*found.bases) == kinds_of(real), found
            if found.version is not None and kinds_of(real) and not found.is_abstract:
                assert found.version == version_reported(real), found

    assert hold_alike([(name, name) for name in names], look) > 100
