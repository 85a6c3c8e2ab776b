"""The house stands as its plan says: floors and rooms are all in the import rules, and files form no circle."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import grimp
import pytest

from kit.places import ROOT

_RULES = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
_LAYERS = {rule["containers"][0]: rule for rule in _RULES["contracts"] if "containers" in rule}
_SOURCES = {"kconnect": ROOT / "core", "kconnect_cli": ROOT / "cli"}


def members(package: str) -> set[str]:
    """Modules and packages that lie in a package."""
    folder = _SOURCES[package.split(".")[0]] / Path(*package.split("."))
    inside = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    return inside | {path.parent.name for path in folder.glob("*/__init__.py")}


def circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Sets of modules of which each imports the others, over however many steps: components as Tarjan finds them."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    open_: list[str] = []
    found = []
    for start in imports:
        work = [] if start in order else [(start, iter(sorted(imports[start])))]
        if work:
            order[start] = low[start] = len(order)
            open_.append(start)
        while work:
            module, rest = work[-1]
            for target in rest:
                if target not in order:
                    order[target] = low[target] = len(order)
                    open_.append(target)
                    work.append((target, iter(sorted(imports[target]))))
                    break
                if target in open_:
                    low[module] = min(low[module], order[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[module])
                if low[module] == order[module]:
                    at = open_.index(module)
                    found.append(sorted(open_[at:]))
                    del open_[at:]
    return [circle for circle in found if len(circle) > 1]


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    """Module -> what it imports, also for types alone; what an `__init__` gives on from its own room aside."""
    graph = grimp.build_graph("kconnect", "kconnect_cli", cache_dir=None)
    found = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    return {
        module: {target for target in targets if not target.startswith(f"{module}.")}
        for module, targets in found.items()
    }


def test_the_top_floor_has_a_dozen_names() -> None:
    loose = {path.stem for path in (_SOURCES["kconnect"] / "kconnect").glob("*.py")} - {"__init__"}
    assert loose == {"errors", "model", "clock"}
    assert len(members("kconnect")) <= 14


@pytest.mark.parametrize(
    "package", ["kconnect", "kconnect.runtime", "kconnect.admin", "kconnect.java", "kconnect.builtin"]
)
def test_every_floor_and_room_is_in_the_import_rules(package: str) -> None:
    rule = _LAYERS[package]
    listed = [name for layer in rule["layers"] for name in layer.split(" | ")]
    assert rule["exhaustive"]
    assert sorted(listed) == sorted(members(package))


def test_what_is_imported_for_types_alone_counts() -> None:
    assert _RULES["exclude_type_checking_imports"] is False


def test_no_files_form_a_circle(imports: dict[str, set[str]]) -> None:
    assert len(imports) > 500
    assert circles(imports) == []


def test_a_circle_is_noticed() -> None:
    assert circles({"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": set()}) == [["a", "b", "c"]]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_every_floor_says_what_it_is() -> None:
    root = _SOURCES["kconnect"] / "kconnect"
    for name in sorted(path.parent.name for path in root.glob("*/__init__.py")):
        text = (root / name / "__init__.py").read_text("utf-8").partition('"""')[2].partition('"""')[0]
        assert len(text.strip().splitlines()) >= 3, f"{name} does not say what is in it, who imports it, where to begin"
        assert "mport" in text, f"{name} does not say who imports it, or what it imports"


_HTTP = re.compile(
    r"^\s*(?:import|from)\s+(?:http\.client|urllib\.request|urllib3|requests|httpx2?)\b(?!\.utils)", re.MULTILINE
)


def test_http_is_spoken_in_one_place() -> None:
    """`kconnect.client.http_exchange` has a deadline for the whole; who imports a client of its own has none."""
    speaking = {
        path.relative_to(folder).as_posix()
        for folder in _SOURCES.values()
        for path in folder.rglob("*.py")
        if _HTTP.search(path.read_text("utf-8"))
    }
    assert speaking == {
        "kconnect/client/http_exchange.py",
        "kconnect/client/http_failures.py",
        "kconnect/client/http_wire.py",
        "kconnect/builtin/types/iceberg_catalog.py",  # puts a deadline into pyiceberg's own session
    }


def test_what_clients_trust_is_said_in_one_place() -> None:
    """Python's own default refuses more from release to release: `kconnect.client.trust` is alike on each."""
    making = {
        path.relative_to(folder).as_posix()
        for folder in _SOURCES.values()
        for path in folder.rglob("*.py")
        if "create_default_context" in path.read_text("utf-8")
    }
    assert making == {"kconnect/client/trust.py"}
