"""The plugins that a connector's config names, and under which prefix the settings of each stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

__all__ = ["named_plugins"]

_CONVERTERS = ("key.converter", "value.converter", "header.converter")


def named_plugins(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Prefix and class name of each: `("", "FileStreamSource")`, `("transforms.wrap.", "HoistField$Value")`.

    As the config has them: nothing is looked up, and a wrong config gives what can be made of it.
    """
    yield from _named("", config.get("connector.class"))
    for kind in ("transforms", "predicates"):
        for alias in dict.fromkeys((config.get(kind) or "").split(",")):
            prefix = f"{kind}.{alias.strip()}."
            yield from _named(prefix, config.get(f"{prefix}type"))
    for key in _CONVERTERS:
        yield from _named(f"{key}.", config.get(key))


def _named(prefix: str, name: object) -> Iterator[tuple[str, str]]:
    if isinstance(name, str) and name.strip():
        yield prefix, name.strip()
