"""What modules define, read from their source: nothing in a folder of plugins runs before something names it.

A file beside a plugin may sleep, start a Spark job or send mail when it is imported, so a list of plugins, and the
search for a short name, parse the files instead. Bases are followed through imports, re-exports and packages; only
classes of kconnect itself are looked at as objects.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Final, TypeAlias

__all__ = ["ClassFacts", "SourceReader"]

_OURS: Final = __name__.partition(".")[0]
# Longer chains of imports are circles
_DEEPEST: Final = 30


@dataclass(frozen=True, slots=True)
class ClassFacts:
    """A class as its source has it.

    `bases` are the classes of kconnect that it extends, directly or through others. `version` is what its method of
    that name returns, None where only an object can tell.
    """

    module: str
    name: str
    bases: tuple[type, ...]
    is_abstract: bool
    version: str | None


@dataclass(slots=True)
class _Module:
    """The top level of a module: classes, what is imported under which name, constants, and `import *`."""

    name: str
    is_package: bool
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)  # name -> module and name in it, "" for itself
    constants: dict[str, str] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)


_Found: TypeAlias = type | tuple[_Module, ast.ClassDef]


class SourceReader:
    """Reads modules on `sys.path` without importing them; each once.

    Errors: SyntaxError and OSError of a file that Python cannot read either.
    """

    def __init__(self) -> None:
        self._modules: dict[str, _Module | None] = {}

    def classes_in(self, module_name: str) -> list[ClassFacts]:
        """The public classes that a module defines at its top level, in order. Empty where it has no source."""
        module = self._module(module_name)
        if module is None:
            return []
        return [self._facts(module, found, 0)[0] for name, found in module.classes.items() if not name.startswith("_")]

    def _facts(self, module: _Module, defined: ast.ClassDef, depth: int) -> tuple[ClassFacts, frozenset[str]]:
        """With the names of abstract methods that it leaves open."""
        real: dict[type, None] = {}
        open_methods: set[str] = set()
        versions: list[str | None] = []
        for base in defined.bases:
            found = self._resolved(module, base, depth + 1)
            if isinstance(found, type):
                real[found] = None
                open_methods |= getattr(found, "__abstractmethods__", frozenset())
                versions.append("undefined" if _is_default(found) else None)
            elif found is not None:
                facts, inherited = self._facts(*found, depth + 1)
                real |= dict.fromkeys(facts.bases)
                open_methods |= inherited
                if facts.bases:
                    versions.append(facts.version)
        open_methods -= _names_defined(defined)
        open_methods |= {name for name, method in _methods(defined) if _is_abstract(method)}
        version = self._version(module, defined, versions, depth)
        reported = ClassFacts(module.name, defined.name, tuple(real), bool(open_methods), version)
        return reported, frozenset(open_methods)

    def _version(
        self, module: _Module, defined: ast.ClassDef, inherited: Sequence[str | None], depth: int
    ) -> str | None:
        method = dict(_methods(defined)).get("version")
        if method is None:
            return inherited[0] if inherited else None
        body = [step for step in method.body if not _is_docstring(step)]
        if len(body) != 1 or not isinstance(body[0], ast.Return):
            return None
        match body[0].value:
            case ast.Constant(value=str(text)):
                return text
            case ast.Name(id=name):
                return self._constant(module, name, depth + 1)
        return None

    def _constant(self, module: _Module, name: str, depth: int) -> str | None:
        if name in module.constants or name not in module.imports or depth > _DEEPEST:
            return module.constants.get(name)
        where, imported = module.imports[name]
        source = self._module(where)
        return None if source is None or not imported else self._constant(source, imported, depth + 1)

    def _resolved(self, module: _Module, expression: ast.expr, depth: int) -> _Found | None:
        match expression:
            case ast.Name(id=name):
                return self._named(module, name, depth)
            case ast.Subscript(value=value):  # a generic base
                return self._resolved(module, value, depth)
            case ast.Attribute():
                first, *rest = ast.unparse(expression).split(".")
                where, imported = module.imports.get(first, ("", ""))
                path = [*where.split("."), *([imported] if imported else []), *rest]
                return self._imported(".".join(path[:-1]), path[-1], depth + 1) if where else None
        return None

    def _named(self, module: _Module, name: str, depth: int) -> _Found | None:
        if depth > _DEEPEST:
            return None
        if name in module.classes:
            return module, module.classes[name]
        if name in module.imports:
            return self._imported(*module.imports[name], depth + 1)
        found = (self._imported(star, name, depth + 1) for star in module.stars)
        return next((one for one in found if one is not None), None)

    def _imported(self, module_name: str, name: str, depth: int) -> _Found | None:
        if module_name.partition(".")[0] == _OURS:
            return _class_of_ours(module_name, name)
        source = self._module(module_name)
        return None if source is None else self._named(source, name, depth)

    def _module(self, name: str) -> _Module | None:
        if name not in self._modules:
            spec = _spec(name)
            origin = spec.origin if spec is not None else None
            readable = origin is not None and origin.endswith(".py")
            self._modules[name] = _read(name, Path(origin)) if readable and origin is not None else None
        return self._modules[name]


def _is_default(base: type) -> bool:
    """Whether it has the version of the API's own classes, which tell none."""
    return str(getattr(getattr(base, "version", None), "__module__", "")).startswith(f"{_OURS}.api")


def _class_of_ours(module_name: str, name: str) -> type | None:
    try:
        found = getattr(importlib.import_module(module_name), name, None)
    except ImportError:  # a typo in a plugin's file: whoever names the plugin gets the error
        return None
    return found if isinstance(found, type) else None


def _spec(name: str) -> ModuleSpec | None:
    """Where a module is, without importing the packages that it is in."""
    first, *rest = name.split(".")
    try:
        spec = importlib.util.find_spec(first)
    except ValueError:  # a module that somebody made by hand
        return None
    path = first
    for part in rest:
        if spec is None or spec.submodule_search_locations is None:
            return None
        path = f"{path}.{part}"
        spec = PathFinder.find_spec(path, list(spec.submodule_search_locations))
    return spec


def _read(name: str, file: Path) -> _Module:
    module = _Module(name, file.name == "__init__.py")
    for step in _top_level(ast.parse(file.read_bytes(), str(file)).body):
        match step:
            case ast.ClassDef():
                module.classes[step.name] = step
            case ast.Import():
                for alias in step.names:
                    whole = alias.name if alias.asname else alias.name.partition(".")[0]
                    module.imports[alias.asname or whole] = (whole, "")
            case ast.ImportFrom():
                where = _absolute(module, step)
                module.stars += [where for alias in step.names if alias.name == "*"]
                module.imports |= {alias.asname or alias.name: (where, alias.name) for alias in step.names}
            case ast.Assign(targets=[ast.Name(id=target)], value=ast.Constant(value=str(text))):
                module.constants[target] = text
            case ast.AnnAssign(target=ast.Name(id=target), value=ast.Constant(value=str(text))):
                module.constants[target] = text
    return module


def _absolute(module: _Module, step: ast.ImportFrom) -> str:
    """The module that `from .x import y` means."""
    if not step.level:
        return step.module or ""
    parts = module.name.split(".")
    kept = parts[: len(parts) - step.level + module.is_package]
    return ".".join([*kept, *([step.module] if step.module else [])])


def _top_level(steps: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """With what is below `if`, `try` and `with`."""
    for step in steps:
        yield step
        if isinstance(step, ast.If | ast.Try | ast.With):
            for name in ("body", "handlers", "orelse", "finalbody"):
                for below in getattr(step, name, ()):
                    yield from _top_level(below.body if isinstance(below, ast.ExceptHandler) else [below])


def _methods(defined: ast.ClassDef) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    return ((step.name, step) for step in defined.body if isinstance(step, ast.FunctionDef | ast.AsyncFunctionDef))


def _names_defined(defined: ast.ClassDef) -> set[str]:
    names = {name for name, _ in _methods(defined)}
    for step in defined.body:
        targets = (
            step.targets if isinstance(step, ast.Assign) else [step.target] if isinstance(step, ast.AnnAssign) else []
        )
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def _is_abstract(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(one).rpartition(".")[2].startswith("abstract") for one in method.decorator_list)


def _is_docstring(step: ast.stmt) -> bool:
    return isinstance(step, ast.Expr) and isinstance(step.value, ast.Constant)
