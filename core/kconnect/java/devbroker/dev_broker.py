"""A real single-node Kafka broker (KRaft, broker and controller in one JVM) for development, quickstart and tests.

`ask_broker` tells that it is ready by two requests on a bare socket, without a client library.

A class archive of its JVM halves the start, 2.0 s to 1.0 s measured on 2 cores.

`python -m kconnect.java.devbroker.make_archive` makes it: a broker writes it when it ends, which takes 1.7 s more.
"""

from __future__ import annotations

import base64
import logging
import os
import random
import socket
import struct
import subprocess
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kconnect.errors import EnvironmentProblemError, TimedOutError
from kconnect.files.folders import cache_folder, data_folder
from kconnect.java.archives import ARCHIVE_FLAGS, RECORDS_AT_EXIT, ClassArchive, make_in_background
from kconnect.java.devbroker.dev_server import HOST, DevServer
from kconnect.java.devbroker.server_folder import NODE_ID, BrokerFolder, telling_lines
from kconnect.java.installed import Java, find_java
from kconnect.java.kafka_jars import JarSet
from kconnect.java.maven import Progress

log = logging.getLogger(__name__)

DEFAULT_PORT = 9092
# A cold start measured 2 s alone on 2 cores; ten times that for a machine under load, and more for a long recovery.
_READY_TIMEOUT_S = 60.0
_FORMAT_TIMEOUT_S = 60.0
# Outgoing connections are given ports from 32,768 on (Linux) or 49,152 on (others), unless the system is set otherwise
_PORTS = range(10_000, 15_000)
_PORT_TRIES = 1000
# Kafka keeps records in the page cache, not in the heap: with Java Connect at 0.35 M records/s (100 B, 2 cores) this
# does as well as 1 GB with G1, and takes 360 MB instead of 990.
_HEAP = ("-Xms128m", "-Xmx512m")
_JVM_OPTIONS = (*_HEAP, "-XX:+UseSerialGC", "-Djava.awt.headless=true", "-Dfile.encoding=UTF-8")
_LOG_SETTINGS = """\
status = error
appender.out.type = Console
appender.out.name = OUT
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c{1})%n
rootLogger.level = info
rootLogger.appenderRef.out.ref = OUT
logger.configs.name = org.apache.kafka.common.config
logger.configs.level = warn
logger.broker.name = kafka.server.KafkaConfig
logger.broker.level = warn
"""


def default_data_folder() -> Path:
    """The broker's default folder: in the user's data folder."""
    return data_folder() / "broker"


class DevBroker(DevServer):
    """One broker on one data folder.

    `listeners` are added to the plain one, security protocol -> port (`SASL_SSL`); `settings` are what they need, such
    as `listener.name.sasl_ssl.ssl.keystore.location`.
    """

    WHAT = "Kafka broker"
    _READY_S = _READY_TIMEOUT_S
    folder: BrokerFolder

    def __init__(
        self,
        port: int = DEFAULT_PORT,
        data_dir: Path | str | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        listeners: Mapping[str, int] | None = None,
        jvm_options: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> None:
        super().__init__(port, BrokerFolder(Path(data_dir) if data_dir is not None else default_data_folder()))
        self._settings = dict(settings or {})
        self._listeners = dict(listeners or {})
        self._jvm_options = tuple(jvm_options)
        self._progress = progress
        self._uses: ClassArchive | None = None
        self.prepares_archive = False
        """Whether this start began to make the class archive, in the background."""

    @property
    def bootstrap(self) -> str:
        """What clients use as bootstrap.servers."""
        return f"{HOST}:{self.port}"

    @property
    def address(self) -> str:
        return self.bootstrap

    def is_ready(self, port: int, within_s: float) -> bool:
        answer = ask_broker(HOST, port, timeout_s=within_s)
        return answer is not None and answer.is_ready

    def start(self, timeout_s: float | None = None) -> None:
        """Works as DevServer's; then has the class archive made, if there is none."""
        super().start(timeout_s)
        if self._uses is not None:
            self._have_archive_made(self._uses)

    def find_archive(self, cache: Path) -> ClassArchive | None:
        """The class archive that this broker's JVM uses; fetches the jars. Errors: as those of start."""
        return self._archive(cache, *self._program())

    def _archive(self, cache: Path, java: Java, jars: Sequence[Path]) -> ClassArchive | None:
        return broker_archive(cache, java, jars, (*_JVM_OPTIONS, *self._jvm_options))

    def _have_archive_made(self, archive: ClassArchive) -> None:
        """In the background, once; only for a broker with default options, which is what the archive is made with."""
        if self._jvm_options or not archive.should_be_made():
            return
        try:
            make_in_background("kconnect.java.devbroker.make_archive", cache_folder())
            self.prepares_archive = True
        except (OSError, subprocess.TimeoutExpired) as error:
            log.debug("The class archive of the broker cannot be made: %s", error)

    def _fetched(self) -> Callable[[], Sequence[str]]:
        java, jars = self._program()
        return lambda: self._prepare(java, jars)

    def _program(self) -> tuple[Java, Sequence[Path]]:
        return find_java(f"the {self.WHAT}"), JarSet().fetch(self._progress)

    def _prepare(self, java: Java, jars: Sequence[Path]) -> list[str]:
        """Write the settings, format the storage the first time; the command line of the broker."""
        self._uses = self._archive(cache_folder(), java, jars)
        self.folder.log_settings.write_text(_LOG_SETTINGS, "utf-8")
        self.folder.clear_scratch()
        lines = [f"{key}={value}".replace("\\", "\\\\") for key, value in self.broker_settings().items()]
        self.folder.settings.write_text("\n".join(lines) + "\n", "utf-8")
        command = [
            str(java.executable),
            *(self._uses.flags() if self._uses else ()),
            *ARCHIVE_FLAGS,
            *_JVM_OPTIONS,
            *self._jvm_options,
            f"-Dlog4j2.configurationFile={self.folder.log_settings}",
            f"-Djava.io.tmpdir={self.folder.scratch}",
            "-cp",
            os.pathsep.join(str(jar) for jar in jars),
        ]
        if not self.folder.is_formatted:
            self._format(command)
        return [*command, "kafka.Kafka", str(self.folder.settings)]

    def broker_settings(self) -> dict[str, str]:
        """Kafka's settings for this start; the controller gets a free port of its own each time."""
        served = {"PLAINTEXT": self.port, **self._listeners}
        controller_port = free_port(served.values())
        shown = ",".join(f"{name}://{HOST}:{port}" for name, port in served.items())
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(NODE_ID),
            "controller.quorum.voters": f"{NODE_ID}@{HOST}:{controller_port}",
            "listeners": f"{shown},CONTROLLER://{HOST}:{controller_port}",
            "advertised.listeners": shown,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": ",".join(f"{name}:{name}" for name in served) + ",CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.folder.kafka),
            "num.partitions": "1",
            "default.replication.factor": "1",
            "min.insync.replicas": "1",
            "auto.create.topics.enable": "true",
            "group.initial.rebalance.delay.ms": "0",
            # Members of the newer protocol (KIP-848) hear of a rebalance by their heartbeat: Kafka's default is 5 s
            "group.consumer.min.heartbeat.interval.ms": "200",
            "group.consumer.heartbeat.interval.ms": "500",
            # After a kill -9 the controller accepts the node again only when its former session is over:
            # Kafka's default of 9 s is long.
            "broker.session.timeout.ms": "4000",
            "broker.heartbeat.interval.ms": "500",
            # Followers learn from a record every 500 ms how far the log is: a node alone has none, and would write and
            # flush for nobody, a quarter of what it takes of the processor while nothing happens.
            "metadata.max.idle.interval.ms": "0",
            # Transactions past their timeout block readers until the next check: Kafka's default is every 10 s.
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
            # Kafka's 128 MB lie in the heap from the start. 8 MB are 300,000 keys in one pass over a compacted topic,
            # and an idle broker takes 155 MB instead of 295.
            "log.cleaner.dedupe.buffer.size": str(8 * 1024 * 1024),
        }
        for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
            # One partition each: fifty folders and logs less at first use, and a faster recovery.
            settings[f"{topic}.num.partitions"] = "1"
            settings[f"{topic}.replication.factor"] = "1"
        settings["transaction.state.log.min.isr"] = "1"
        settings["share.coordinator.state.topic.min.isr"] = "1"
        return settings | self._settings

    def _format(self, command: Sequence[str]) -> None:
        """Give the folder its cluster id, by Kafka's own tool.

        A cluster id is 16 bytes in URL-safe base64. The first byte is fixed: the tool refuses a leading dash.
        """
        cluster_id = base64.urlsafe_b64encode(b"\x40" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
        tool = [command[0], "-XX:TieredStopAtLevel=1", *command[1:], "kafka.tools.StorageTool", "format"]
        try:
            result = subprocess.run(
                [*tool, "--cluster-id", cluster_id, "--config", str(self.folder.settings)],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_FORMAT_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as err:
            raise TimedOutError(
                f"Formatting {self.folder.path} for Kafka took more than {_FORMAT_TIMEOUT_S:.0f} s."
            ) from err
        if result.returncode != 0:
            tail = "\n".join(f"  {line}" for line in telling_lines(result.stderr + result.stdout))
            raise EnvironmentProblemError(
                f"The data folder {self.folder.path} cannot be formatted for Kafka:\n{tail}",
                hint="If the folder is at fault, delete it to start empty, or name another one with --data.",
            )


def free_port(others: Collection[int] = ()) -> int:
    """A port of this host that is free at the moment, and none of `others`, for a server that listens there some
    seconds later.

    It is none of those that the system gives to outgoing connections: one might have it before the server does.
    Errors: EnvironmentProblemError.
    """
    for _ in range(_PORT_TRIES):
        port = random.choice(_PORTS)
        if port in others:
            continue
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):  # taken
                probe.bind((HOST, port))
                return port
    raise EnvironmentProblemError(
        f"No port from {_PORTS.start} to {_PORTS.stop - 1} on {HOST} is free: {_PORT_TRIES} were tried."
    )


_METADATA = 3
# Version 2 is the oldest with the cluster id, and understood by every broker since 0.10.1.
_METADATA_VERSION = 2
_CLIENT_ID = b"kconnect-devbroker"
# One broker and no topics: about a hundred bytes. More is not a Kafka answer.
_MAX_ANSWER_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class BrokerAnswer:
    """A broker's description of its cluster."""

    cluster_id: str | None
    controller_id: int
    brokers: tuple[tuple[int, str, int], ...]  # node id, host, port

    @property
    def is_ready(self) -> bool:
        """Brokers are registered and a controller leads: admin requests will be answered."""
        return bool(self.brokers) and self.controller_id >= 0


def ask_broker(host: str, port: int, timeout_s: float) -> BrokerAnswer | None:
    """The broker's answer to a metadata request; None if no Kafka broker answers in time."""
    deadline = time.monotonic() + timeout_s
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            # an empty array: no topics are requested
            request = struct.pack(">hhih", _METADATA, _METADATA_VERSION, 1, len(_CLIENT_ID)) + _CLIENT_ID + b"\0\0\0\0"
            connection.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", _receive(connection, 4, deadline))
            if not 4 < size <= _MAX_ANSWER_BYTES:
                return None
            return _parse(_receive(connection, size, deadline))
    except (OSError, struct.error, ValueError):
        return None  # no listener, another protocol, or too slow: all mean "no broker answers"


def _receive(connection: socket.socket, size: int, deadline: float) -> bytes:
    data = bytearray()
    while len(data) < size:
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError("closed in mid-answer")
        data += part
    return bytes(data)


def _parse(data: bytes) -> BrokerAnswer:
    position = 4  # the correlation id: one request was sent on this connection

    def take(form: str) -> int:
        nonlocal position
        (value,) = struct.unpack_from(form, data, position)
        position += struct.calcsize(form)
        return int(value)

    def text() -> str | None:
        nonlocal position
        size = take(">h")
        if size < 0:
            return None
        position += size
        return data[position - size : position].decode("utf-8")

    brokers = []
    for _ in range(take(">i")):
        node_id, host, port = take(">i"), text(), take(">i")
        text()  # the rack
        brokers.append((node_id, host or "", port))
    cluster_id = text()
    return BrokerAnswer(cluster_id, take(">i"), tuple(brokers))


def broker_archive(cache: Path, java: Java, jars: Sequence[Path], options: Sequence[str]) -> ClassArchive | None:
    """The archive for this Java, class path and options; None for a broker that writes one itself.

    The JVM refuses an archive of another build, class path, jar time or collector.
    """
    if any(option.startswith(RECORDS_AT_EXIT) for option in options):
        return None
    facts = [java.version, str(java.executable.resolve()), *filter(_matters, options)]
    facts += [f"{jar}:{stat.st_size}:{stat.st_mtime_ns}" for jar in jars if (stat := jar.stat())]
    return ClassArchive(cache / "jvm", "broker", facts)


def _matters(option: str) -> bool:
    """Whether a JVM with the option may need another archive; classes are the same whatever compiles them."""
    return option.startswith("-XX:") and not option.startswith("-XX:TieredStopAtLevel=")
