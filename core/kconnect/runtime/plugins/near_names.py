"""Which plugins a name may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

from kconnect.runtime.plugins.aliases import PluginType, short_names
from kconnect.runtime.plugins.plugin_info import PluginInfo

# Suffixes of the names of each kind
_KIND_WORDS: Final = ("Connector", "Converter")


def nearest(name: str, infos: Iterable[PluginInfo]) -> list[str]:
    """The plugins with the simple name closest to that of `name`: several if it omits $Key or $Value.

    Packages, $Key and $Value are ignored: too many names share them.
    """
    outer, _, inner = name.strip().rpartition(".")[2].partition("$")
    found: dict[str, list[str]] = {}
    for info in infos:
        for short in short_names(info.class_name, PluginType(info.type)):
            found.setdefault(short.partition("$")[0], []).append(short)
    # Typos are above 0.85; MirrorSourceConnector, a different one, is 0.74 of FileStreamSourceConnector
    close = [near for near in difflib.get_close_matches(outer, found, n=3, cutoff=0.8) if _is_stem_near(outer, near)]
    likely = list(dict.fromkeys(found[close[0]])) if close else []
    return [short for short in likely if inner and short.endswith(f"${inner}")] or likely


def _is_stem_near(name: str, near: str) -> bool:
    """Whether two names stay similar without the suffix for their kind: "Converter" is no typo of LongConverter."""
    for kind in _KIND_WORDS:
        if name.endswith(kind) and near.endswith(kind):
            stems = name.removesuffix(kind), near.removesuffix(kind)
            # Flaot and Float are 0.8; JsonSchema, which is another converter, is 0.57 of Json
            return difflib.SequenceMatcher(None, *stems).ratio() >= 0.7
    return True
