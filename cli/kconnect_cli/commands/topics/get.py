"""`connect topics config|status|offsets get`: the value of one key."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from kconnect.errors import ConnectError, NotFoundError
from kconnect_cli.exits import UsageProblem
from kconnect_cli.options.cluster import ON_CLUSTER, ClusterOptions, cluster_of
from kconnect_cli.options.topic_bounds import AtEach, Until, bounds_of
from kconnect_cli.options.topic_groups import internal_topic
from kconnect_cli.processes.signals import signals_raise
from kconnect_cli.screen.output import Format, write_object, write_text
from kconnect_cli.session import CliSession, ShowSecrets, session_of

if TYPE_CHECKING:
    from kconnect.admin.direct.access import InternalTopic
    from kconnect.admin.direct.read.reader import Bounds
    from kconnect_cli.options.topic_groups import TopicGroups


_Key = Annotated[str, typer.Argument(metavar="KEY", help="The key; base64:.. for bytes.", show_default=False)]
_RawValue = Annotated[bool, typer.Option("--raw", help="The value as it is, byte for byte.")]


def mount(groups: TopicGroups) -> None:
    """Add the command to each group."""
    for word, group in groups.each:
        group.command("get", cls=ON_CLUSTER)(_get_of(word))


def _get_of(word: str) -> Callable[..., None]:
    def get(
        ctx: typer.Context,
        key: _Key,
        raw: _RawValue = False,
        at: AtEach = None,
        until: Until = None,
        show_secrets: ShowSecrets = False,
    ) -> None:
        """Print the value of the newest record of a key, as JSON; its position is printed on stderr.

        Secrets are masked. For an unknown key, similar ones are listed.
        """
        session = session_of(ctx)
        cluster = cluster_of(session)
        bounds = bounds_of(at, until, has_one_partition=word == "config")
        _get(session, cluster, internal_topic(word), (key, bounds, raw, show_secrets))

    return get


def _get(
    session: CliSession, cluster: ClusterOptions, which: InternalTopic, asked: tuple[str, Bounds, bool, bool]
) -> None:
    from kconnect.admin.direct.access import InternalTopic
    from kconnect.admin.direct.read.documents import look_up
    from kconnect.admin.direct.read.installed_plugins import secret_masks
    from kconnect.admin.direct.read.reader import ClusterReader
    from kconnect.admin.direct.read.record_json import bytes_of
    from kconnect.clock import moment

    key, bounds, raw, reveal = asked
    try:
        wanted = bytes_of(key)
    except ValueError as err:
        raise UsageProblem(f"{key} is not Base64: {err}") from err
    access = cluster.access()
    topic = access.topic(which)
    with signals_raise(), ClusterReader(access) as reader:
        found = look_up(reader.records(which, bounds), wanted, is_offset=which is InternalTopic.OFFSET)
        masks = secret_masks(access, reveal=reveal)
        if which is InternalTopic.CONFIG and not reveal:
            masks.learn(reader.configs(any_kind=True).snapshot.configs)
    record = found.record
    if record is None or record.value is None:
        sentence = f"Topic {topic} has no key {key}"
        if record is not None:
            when = moment(record.timestamp_ms) or "no time"
            sentence += f": it was deleted at {record.partition}:{record.offset}, {when}"
        raise NotFoundError(sentence, hint=f"Similar keys: {' '.join(found.near)}" if found.near else None)
    session.say(f"{topic} {record.partition}:{record.offset}, {moment(record.timestamp_ms) or 'no time'}")
    _write_value(session, key, masks.value(which, record.key, record.value), raw)


def _write_value(session: CliSession, key: str, value: bytes | None, raw: bool) -> None:
    """Byte for byte; or as readable JSON, unchanged if it is not JSON."""
    import json

    data = value or b""
    if session.output is Format.NAME:
        write_text(f"{key}\n")
        return
    if not raw:
        try:
            write_object(json.loads(data), session.output)
            return
        except (ValueError, RecursionError):
            session.say("The value is not JSON.")
    sys.stdout.flush()
    stream = getattr(sys.stdout, "buffer", None)
    if stream is None:
        raise ConnectError("Standard output does not accept bytes")
    stream.write(data if raw else data + b"\n")
    stream.flush()
