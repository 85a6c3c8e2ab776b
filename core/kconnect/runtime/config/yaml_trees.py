"""YAML of connector files: every scalar as its text, what stands twice refused, with its lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kconnect.errors import ConfigError


def yaml_trees(path: Path, raw: bytes) -> list[Any]:
    """The documents of a YAML file; of a list, its elements. Scalars are texts as written, `null` and `~` are None.

    Errors: ConfigError for what is no YAML, and for a key that stands twice.
    """
    import yaml  # here: commands that read no YAML start without it

    class Texts(yaml.SafeLoader):
        """Knows no numbers, dates and booleans: 1.10, 010 and yes stay what was written."""

    Texts.yaml_implicit_resolvers = {
        first: [(tag, found) for tag, found in resolvers if tag == "tag:yaml.org,2002:null"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def mapping(loader: Any, node: Any) -> dict[str, Any]:  # of yaml, which has no types for its nodes
        found: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            line = key_node.start_mark.line + 1
            if key in lines:
                raise twice(path, key, lines[key], line)
            lines[key] = line
            found[key] = loader.construct_object(value_node, deep=True)
        return found

    Texts.add_constructor("tag:yaml.org,2002:map", mapping)
    try:
        documents = [tree for tree in yaml.load_all(raw.decode("utf-8-sig"), Texts) if tree is not None]
    except yaml.YAMLError as err:
        text = " ".join(str(err).split())
        raise ConfigError(f"{path} is not valid YAML: {text}.", hint="correct the place that is named") from err
    except UnicodeDecodeError as err:
        raise ConfigError(f"{path} is not valid YAML: it is not UTF-8.", hint="save it as UTF-8") from err
    return [tree for document in documents for tree in (document if isinstance(document, list) else [document])]


def twice(path: Path, key: str, first: int, second: int) -> ConfigError:
    """What to say of a setting that stands twice in a file."""
    return ConfigError(
        f"{path}: {key} is in line {first} and in line {second}.", hint="keep one of them; nothing was changed"
    )
