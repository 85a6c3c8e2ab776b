"""Connector files: .properties, .json, .toml and .yaml, named on the command line or dropped into connectors.d."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from kconnect.errors import ConfigError, NotFoundError, did_you_mean
from kconnect.java.compat.properties import read_text_bytes, strict_properties
from kconnect.logs.wording import pluralize
from kconnect.model import TargetState
from kconnect.runtime.config.custom_resources import KINDS, connectors_in, is_resource

SUFFIXES: Final = (".json", ".properties", ".toml", ".yaml", ".yml")
"""The suffixes of connector files in a folder."""

_CORRECT: Final = "Correct that place."
_NOT_UTF_8: Final = "it is not UTF-8"
_SAVE: Final = "Save it as UTF-8."
_DEEP: Final = "it is nested too deeply"
# As `connectors show -o yaml` has it, alone or in a list: below it the settings, further in
_YAML_CONFIG: Final = re.compile(rb"^(?:- )?( *)config:[ \t]*\r?\n\1 +\S", re.MULTILINE)
_YAML_LINE: Final = re.compile(rb"---|- .*|[\w.$-]+:(?: .*)?")
# What stands beside `config`: what is read, and what `connectors show` and Java's workers say of a connector
_READ: Final = ("name", "config", "initial_state")
_SHOWN: Final = frozenset({"type", "state", "tasks"})
_OFFSETS: Final = frozenset({"offsets", "initial_offsets"})
_STATES: Final = {
    "RUNNING": TargetState.STARTED,
    "PAUSED": TargetState.PAUSED,
    "STOPPED": TargetState.STOPPED,
}


@dataclass(frozen=True, slots=True)
class ConnectorFile:
    """One connector read from a file. `config` includes `name`; `initial_state` is None if not given."""

    path: Path
    name: str
    config: Mapping[str, str] = field(repr=False)  # may hold secrets
    initial_state: TargetState | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of a custom resource of Kubernetes, beside those of the config."""
    keeps_state: bool = False
    """Whether `initial_state` counts for a connector that is there too, as it does of a custom resource."""

    @property
    def has_own_security(self) -> bool:
        """Whether its clients may be somebody else to the brokers than the worker's are."""
        return any(".override.s" in key for key in self.config)  # ssl, sasl, security


def load_folder(folder: str | Path) -> list[ConnectorFile]:
    """All connectors in a folder, by file name; other and hidden files are ignored.

    Errors: NotFoundError if the folder does not exist; ConfigError as `load_connector_file`, or if two files define the
    same connector.
    """
    found: dict[str, ConnectorFile] = {}
    for path in connector_paths(folder):
        loaded = load_connector_file(path)
        earlier = found.setdefault(loaded.name, loaded)
        if earlier is not loaded:
            raise ConfigError(
                f"{path} and {earlier.path} both define the connector '{loaded.name}'.",
                hint="Give one of them another `name`.",
            )
    return list(found.values())


def connector_paths(folder: str | Path) -> list[Path]:
    """The connector files of a folder, by name, and links to files that are not there: what they meant is missing.

    Errors: NotFoundError.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise NotFoundError(f"{folder} is not a folder.", hint="Create it, or name the one with your connector files.")
    return [
        path
        for path in sorted(folder.iterdir())
        if path.suffix.lower() in SUFFIXES
        and not path.name.startswith(".")
        and (path.is_file() or (path.is_symlink() and not path.exists()))
    ]


def load_connector_file(path: str | Path, called: str | None = None) -> ConnectorFile:
    """The connector in a file; `called` is how errors name it, if not by its path.

    JSON is tried first whatever the suffix, as Java does: `{"name", "config"[, "initial_state"]}` or one flat object;
    then .properties. TOML and YAML are ours: the same two forms, nested tables of TOML become dotted keys. What has no
    suffix, such as stdin, is what its text is; YAML that `connectors show -o yaml` prints is distinguished from
    properties by its `config`, and by a colon and a blank in each line. Custom resources of Kubernetes are read too.
    Errors: NotFoundError if the file does not exist, ConfigError for everything else; both name the file.
    Differs: malformed JSON in a .json file is reported as such; Java reads it as .properties and misses the name. A key
    that stands twice is refused, Java takes the last. So is UTF-8 outside the comments of .properties.
    Source: ConnectStandalone.parseConnectorConfigurationFile (Kafka 4.3).
    """
    raw = read_text_bytes(Path(path))
    path = Path(called or path)
    found = _yaml(path, raw)
    if found is None:
        found = _parsed(path, raw)
    if not found:
        raise ConfigError(f"{path} holds no connector.", hint=f"Of Kubernetes {' and '.join(KINDS)} are read.")
    if len(found) > 1:
        raise _several(path, len(found))
    return found[0]


def _several(path: Path, count: int) -> ConfigError:
    return ConfigError(
        f"{path} holds {pluralize(count, 'connector')}.", hint="Name a file with one; apply takes several."
    )


def load_connector_files(path: str | Path, called: str | None = None) -> list[ConnectorFile]:
    """The connectors in a file: as `load_connector_file`, or an array or several documents of such objects.

    None where objects of Kubernetes of other kinds are all that is in it.
    """
    raw = read_text_bytes(Path(path))
    path = Path(called or path)
    if (found := _yaml(path, raw)) is not None:
        return found
    trees = _array(path, raw)
    if trees is None:
        return _parsed(path, raw)
    if not all(isinstance(tree, dict) for tree in trees):
        raise ConfigError(f"{path} must hold JSON objects.", hint='Write [{"name": .., "config": {..}}, ..]')
    return _connectors(path, trees)


def _connectors(path: Path, trees: Sequence[Mapping[str, Any]]) -> list[ConnectorFile]:
    """What objects of a file are: a connector each; of Kubernetes' those that are in it."""
    found: list[ConnectorFile] = []
    for tree in trees:
        if is_resource(tree):
            found += [
                replace(_from_tree(path, one), labels=one["labels"], keeps_state=True)
                for one in connectors_in(str(path), tree)
            ]
        else:
            found.append(_from_tree(path, tree))
    return found


def _parsed(path: Path, raw: bytes) -> list[ConnectorFile]:
    if not raw.strip():
        raise ConfigError(f"{path} is empty.", hint="Write the connector's settings into it, `name` among them.")
    suffix = path.suffix.lower()
    if suffix == ".toml" or (not suffix and _is_toml(raw)):
        return [_from_tree(path, _toml(path, raw))]
    tree = _json(path, raw, strict=suffix == ".json" or (not suffix and raw.lstrip()[:1] in (b"{", b"[")))
    if tree is not None:
        return _connectors(path, [tree])
    config = strict_properties(raw, str(path), separated=not suffix)
    return [_connector(path, config.get("name"), config, None)]


def _yaml(path: Path, raw: bytes) -> list[ConnectorFile] | None:
    """The connectors in a YAML file; None if it is none."""
    suffix = path.suffix.lower()
    is_named = suffix in (".yaml", ".yml")
    if not is_named and (suffix or not _is_yaml(raw)):
        return None
    trees = yaml_trees(path, raw)
    if not trees:
        raise ConfigError(f"{path} is empty.", hint="Write the connector's settings into it, `name` among them.")
    if not all(isinstance(tree, dict) for tree in trees):
        raise ConfigError(f"{path} must hold mappings.", hint="Write name: .., config: .., or the settings themselves.")
    return _connectors(path, trees)


def _is_yaml(raw: bytes) -> bool:
    """Whether a text without suffix is YAML: what `show -o yaml` prints, or `key: value` or `- ` where a line begins.

    Lines further in belong to those above, unless a backslash says that it is properties.
    """
    if raw.lstrip()[:1] in (b"{", b"["):
        return False
    lines = [line for line in raw.splitlines() if line.strip() and not line.lstrip().startswith(b"#")]
    if any(line.endswith(b"\\") for line in lines):
        return False
    first = [line for line in lines if line[:1] != b" "]
    return _YAML_CONFIG.search(raw) is not None or (bool(first) and all(map(_YAML_LINE.fullmatch, first)))


def _is_toml(raw: bytes) -> bool:
    """Whether a text without suffix is TOML: properties would keep the quotes of its texts."""
    if b'"' not in raw and b"'" not in raw:
        return False
    import tomli  # imported here: slots import this module but read no files

    try:
        return bool(tomli.loads(raw.decode("utf-8-sig")))
    except (ValueError, RecursionError):
        return False


def _array(path: Path, raw: bytes) -> list[Any] | None:
    """The elements of a JSON array, or None if it is not one."""
    if not raw.lstrip().startswith(b"["):
        return None
    try:
        tree = _loaded(path, raw)
    except ValueError:  # reported when it is read as one connector
        return None
    return tree if isinstance(tree, list) else None


def _loaded(path: Path, raw: bytes) -> Any:
    """JSON with numbers as texts. Errors: ValueError; ConfigError for a key that stands twice in an object."""

    def pairs(given: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(given)
        if len(found) < len(given):
            names = [key for key, _ in given]
            key = next(name for name in names if names.count(name) > 1)
            spelled = json.dumps(key).encode()
            lines = [number for number, line in enumerate(raw.splitlines(), 1) if spelled in line]
            raise twice(path, key, lines[0] if lines else 1, lines[-1] if lines else 1)
        return found

    try:
        return json.loads(raw, parse_int=str, parse_float=str, parse_constant=str, object_pairs_hook=pairs)
    except RecursionError:
        raise ValueError(_DEEP) from None
    except UnicodeDecodeError:
        raise ValueError(_NOT_UTF_8) from None


def _json(path: Path, raw: bytes, *, strict: bool) -> dict[str, Any] | None:
    """The object in a file, or None if it is not JSON and need not be."""
    try:
        tree = _loaded(path, raw)
    except ValueError as err:  # malformed JSON, or bytes that are not UTF-8
        if strict:
            hint = _CORRECT if raw.lstrip()[:1] in (b"{", b"[") else "Name a file of key=value lines FILE.properties."
            hint = _SAVE if str(err) == _NOT_UTF_8 else hint
            raise ConfigError(f"{path} is not valid JSON: {err}.", hint=hint) from err
        return None
    if not isinstance(tree, dict):
        if strict and isinstance(tree, list) and tree:
            raise _several(path, len(tree))
        if strict:
            raise ConfigError(f"{path} must hold a JSON object.", hint='Write {"name": .., "config": {..}}')
        return None
    return tree


def _toml(path: Path, raw: bytes) -> dict[str, Any]:
    import tomli  # imported here: slots import this module but read no files

    try:
        return tomli.loads(raw.decode("utf-8-sig"), parse_float=str)
    except UnicodeDecodeError as err:
        raise ConfigError(f"{path} is not valid TOML: {_NOT_UTF_8}.", hint=_SAVE) from err
    except RecursionError:
        raise ConfigError(f"{path} is not valid TOML: {_DEEP}.", hint=_CORRECT) from None
    except ValueError as err:
        raise ConfigError(f"{path} is not valid TOML: {err}.", hint=_CORRECT) from err


def _from_tree(path: Path, tree: Mapping[str, Any]) -> ConnectorFile:
    """A connector from either form; a `config` object tells them apart."""
    inner = tree.get("config")
    if not isinstance(inner, Mapping):
        if path.suffix.lower() != ".toml":  # in which tables of any name are settings
            _refuse_others(path, tree)
        flat = _flatten(path, tree)
        if set(flat) == {"name"} or ("config" in flat and "connector.class" not in flat):
            raise ConfigError(
                f"{path} has no `config`.", hint='Write {"name": .., "config": {..}} or all in one object'
            )
        return _connector(path, flat.get("name"), flat, None)
    _check_fields(path, tree)
    config = _flatten(path, inner)
    name = tree.get("name")
    name = None if name is None else _text(path, "name", name)
    own = config.get("name")
    if name is not None and own is not None and own != name:
        raise ConfigError(
            f"Connector name configuration in 'config' doesn't match the one specified in 'name' at '{path}'",
            hint=f"Keep one of them: '{own}' or '{name}'.",
        )
    return _connector(path, name if name is not None else own, config, _state(path, tree.get("initial_state")))


# A field by which other tools' files are known, and where a connector's settings are in them
_OTHERS: Final = (
    (("connectorConfiguration",), "a connector of Amazon MSK Connect", "`connectorName` as `name` and "
     "`connectorConfiguration` as `config`"),
    (("resource",), "a file of Terraform", "the resource's name as `name` and its `config`"),
)  # fmt: skip


def _refuse_others(path: Path, tree: Mapping[str, Any]) -> None:
    """Errors: ConfigError for a file of another tool, with what of it is the connector's."""
    for fields, what, where in _OTHERS:
        if all(field in tree for field in fields) and "connector.class" not in tree:
            raise ConfigError(f"{path} is {what}, which is not read here.", hint=f"Write {where}.")
    described = next((one for one in tree.values() if isinstance(one, Mapping) and {"info", "status"} & set(one)), None)
    if described is not None and "connector.class" not in tree:
        raise ConfigError(
            f"{path} is a worker's answer about several connectors, which is not read here.",
            hint="Write `name` and `info.config` of each into a document of its own, which "
            "connect connectors show NAME -o yaml prints.",
        )


def _check_fields(path: Path, tree: Mapping[str, Any]) -> None:
    """Beside `config` others may stand, as in Java; none that means what is read and is spelled otherwise."""
    for key in tree:
        if key in _OFFSETS:
            raise ConfigError(
                f"{path}: `{key}` is not read from a file.",
                hint="Leave it out; connect offsets alter NAME -f FILE sets offsets.",
            )
        meant = None if key in _SHOWN or key in _READ else did_you_mean(key, _READ)
        if meant is not None:
            raise ConfigError(f"{path}: Unknown field: {key}", hint=meant)


def _connector(path: Path, name: str | None, config: Mapping[str, str], state: TargetState | None) -> ConnectorFile:
    if name is None or not name.strip():
        raise ConfigError(
            f"Connector configuration at '{path}' is missing the mandatory 'name' configuration",
            hint="Add the connector's `name`.",
        )
    return ConnectorFile(path, name.strip(), {**config, "name": name.strip()}, state)


def _state(path: Path, value: Any) -> TargetState | None:
    if value is None:
        return None
    state = _STATES.get(str(value).upper())
    if state is None:
        raise ConfigError(f"{path}: initial_state '{value}' is unknown.", hint=f"Use one of {', '.join(_STATES)}.")
    return state


def _flatten(path: Path, tree: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested objects as dotted keys: `{"transforms": {"a": {"type": ..}}}` gives `transforms.a.type`."""
    flat: dict[str, str] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            if path.suffix.lower() != ".toml":
                raise ConfigError(
                    f"{path}: '{prefix}{key}' is an object.", hint="Write its keys with dots, each a string."
                )
            flat |= _flatten(path, value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = _text(path, prefix + key, value)
    return flat


def _text(path: Path, key: str, value: Any) -> str:
    """A scalar as Java's text; a list of scalars with commas."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        raise ConfigError(f"{path}: '{key}' is null.", hint="Give it a value, or leave it out.")
    if isinstance(value, list):
        if path.suffix.lower() != ".toml":
            raise ConfigError(f"{path}: '{key}' is an array.", hint="Write one string, with commas.")
        return ",".join(_text(path, key, item) for item in value)
    return str(value)


def yaml_trees(path: Path, raw: bytes) -> list[Any]:
    """The documents of a YAML file; of a list, its elements. Scalars are texts as written, `null` and `~` are None.

    Errors: ConfigError for what is no YAML, and for a key that stands twice.
    """
    import yaml  # here: commands that read no YAML start without it

    class Texts(yaml.SafeLoader):
        """Knows no numbers, dates and booleans: 1.10, 010 and yes stay what was written."""

    merge = "tag:yaml.org,2002:merge"
    Texts.yaml_implicit_resolvers = {
        first: [(tag, found) for tag, found in resolvers if tag in ("tag:yaml.org,2002:null", merge)]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def mapping(loader: Any, node: Any) -> dict[str, Any]:  # of yaml, which has no types for its nodes
        found: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            if key_node.tag == merge:  # `<<: *anchor`, or a list of them, of which the first counts
                value = loader.construct_object(value_node, deep=True)
                for each in reversed(value if isinstance(value, list) else [value]):
                    if not isinstance(each, dict):
                        where = value_node.start_mark
                        raise yaml.MarkedYAMLError(problem="expected a mapping behind <<", problem_mark=where)
                    merged |= each
                continue
            key = str(key_node.value)
            line = key_node.start_mark.line + 1
            if key in lines:
                raise twice(path, key, lines[key], line)
            lines[key] = line
            found[key] = loader.construct_object(value_node, deep=True)
        return {**merged, **found}

    Texts.add_constructor("tag:yaml.org,2002:map", mapping)
    try:
        documents = [tree for tree in yaml.load_all(raw.decode("utf-8-sig"), Texts) if tree is not None]
    except yaml.YAMLError as err:
        raise _not_yaml(path, err) from err
    except UnicodeDecodeError as err:
        raise ConfigError(f"{path} is not valid YAML: {_NOT_UTF_8}.", hint=_SAVE) from err
    except RecursionError:
        raise ConfigError(f"{path} is not valid YAML: {_DEEP}.", hint=_CORRECT) from None
    return [tree for document in documents for tree in (document if isinstance(document, list) else [document])]


def _not_yaml(path: Path, error: Exception) -> ConfigError:
    """Says where and what; `error` is the parser's, which shows the place in a text that it has no name for."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None or not problem:
        return ConfigError(f"{path} is not valid YAML: {' '.join(str(error).split())}.", hint=_CORRECT)
    where = f"line {mark.line + 1}, column {mark.column + 1}"
    if "'\\t'" in problem:
        return ConfigError(f"{path} is not valid YAML: {where} begins with a tab.", hint="Indent with spaces.")
    return ConfigError(f"{path} is not valid YAML: {where}: {problem}.", hint=_CORRECT)


def twice(path: Path, key: str, first: int, second: int) -> ConfigError:
    """What to say of a setting that stands twice in a file."""
    return ConfigError(
        f"{path}: {key} is in line {first} and in line {second}.", hint="Keep one of them; nothing was changed."
    )
