"""One Spark application for one worker: settings to SparkContext, and back to nothing."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import logging
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import kconnect
from kconnect.errors import ConnectError, EnvironmentProblemError
from kconnect.files.folders import made_temporary
from kconnect.java.archives import ClassArchive, recording
from kconnect.java.installed import find_java
from kconnect.logs.timeline import note_step
from kconnect.runtime.herder.interface import ExecutorInfo, RuntimeInfo
from kconnect.spark import entry
from kconnect.spark.cluster import ClusterView, slot_group
from kconnect.spark.jvm import (
    FAST_FLAGS,
    Jvm,
    is_known_user,
    log4j_properties,
    make_archive_in_background,
    spark_archive,
)
from kconnect.spark.master import LocalCores, await_master, warn_while_queued
from kconnect.spark.processes import await_end, birth, session_members
from kconnect.spark.settings import SLOT_POOL, SparkSettings, executors_python, spark_conf, starts_our_daemon
from kconnect.spark.shipping import pack, package_turn, shipments
from kconnect.spark.slot_spec import SlotSpec
from kconnect.spark.waiting_daemon import WaitingDaemon

log = logging.getLogger(__name__)

# A scheduler keeps 35 MB, of which 20 are the lists of Spark's jars; its garbage fills the young generation before a
# collection, 103 MB by default and never returned to the system. At 8 MB the JVM takes 15 MB less than at 24, and its
# start no more processor time. Queries would spend twice as much on collections: the first one loads so many classes
# that the JVM collects all, and sizes the young generation by the old one, up to 24 MB.
_SMALL_HEAP = ("-XX:NewSize=8m", "-XX:MaxNewSize=24m")
# A stop during a start kills the JVM, and checks this often whether the start has launched one by then.
_KILL_AGAIN_S = 0.05


class SparkApplication:
    """A JVM with a SparkContext in it. Lifecycle: constructed -> perhaps launch -> start (blocks a second) -> stop.

    Threads: `run_slot` and `cancel_slot` from any, once started.
    """

    def __init__(self, settings: SparkSettings, *, records_classes: bool = False) -> None:
        self.settings = settings
        self._records_classes = records_classes
        self._context: Any = None
        self._cluster: ClusterView | None = None
        self._jvm: Jvm | None = None
        self._daemon: WaitingDaemon | None = None
        self._folder: Path | None = None
        self._archive: ClassArchive | None = None
        self._shipped_plugins: tuple[str, ...] = ()
        self._stopping = threading.Event()
        self._cores = LocalCores(settings.slot_count())
        self._daemons: dict[int, str] = {}
        """Python daemons that slots were forked from: number and birth; one dictionary operation at a time."""
        self._jvm_session: int | None = None  # of the thread that stops
        self._lock = threading.Lock()  # start and stop may overlap: each waits for the other
        self.started = threading.Event()
        """Set once `context` can be used."""

    @property
    def folder(self) -> Path:
        """For files that end with the application, even with one that is killed; only between start and stop."""
        assert self._folder is not None, "start() first"
        return self._folder

    @property
    def shipped_plugins(self) -> tuple[str, ...]:
        """Plugin folders that executors of a cluster have unpacked, by name; only after start."""
        return self._shipped_plugins

    @property
    def cluster(self) -> ClusterView:
        """The executors; only after start."""
        assert self._cluster is not None, "start() first"
        return self._cluster

    @property
    def driver_host(self) -> str:
        """The host at which executors reach this process; only after start."""
        return str(self._context.getConf().get("spark.driver.host"))

    def launch(self) -> None:
        """Launch the JVM that `start` goes on with, unless something must come before it. Takes some ms.

        Errors: ConnectError, OSError; start() tries again then.
        """
        if not self.settings.is_local or self.settings.spark.get("spark.jars.packages", "").strip():
            return
        flags = self.archive.flags()
        with self._lock:
            if not self._stopping.is_set():
                self._launch_jvm(flags)

    def takes(self, settings: SparkSettings) -> bool:
        """Whether it is started with these settings instead, as a JVM that is launched already suits them."""
        is_alike = _of_jvm(settings) == _of_jvm(self.settings)
        if is_alike:
            self.settings = settings
        return is_alike

    def start(self) -> None:
        """Start the JVM and Spark in it. Errors: EnvironmentProblemError and other ConnectErrors, a sentence each."""
        archive = self.archive
        await_master(self.settings.spark.get("spark.master", ""), self.settings.start_timeout_s, self._stopping)
        with self._lock:
            if self._stopping.is_set():
                return
            _silence_py4j()
            try:
                gateway = self._start_jvm(archive.flags())
            except EnvironmentProblemError:
                if self._stopping.is_set() or archive.path is None:
                    raise
                log.debug("Spark's JVM did not start with its class archive; starting without it")
                self._jvm = None
                gateway = self._start_jvm([])
                archive.discard()  # only now is it to blame, and not a setting
            self._context = self._start_context(gateway)
            self._cluster = ClusterView(self._context)
            note_step("Spark's context is there")
            if not self.settings.is_local:
                self._ship()
            self.started.set()

    def run_slot(self, spec: SlotSpec) -> None:
        """Run a slot as a Spark job; blocks until it ends. Errors: ConnectError with Spark's reason when it failed."""
        whose = "Connect tasks run in here" if spec.connector is None else f"tasks of {spec.connector} run in here"
        description = f"kconnect slot {spec.slot}: {whose}"
        order = {
            "spec": dataclasses.asdict(spec),
            "import_path": _import_path(self.settings),
            "version": kconnect.__version__,
            "needed": entry.NEEDED,
            "plugins": self._shipped_plugins,
        }
        try:
            context = self._context
            context.setJobGroup(slot_group(spec.slot), description, interruptOnCancel=True)
            context.setLocalProperty("spark.scheduler.pool", SLOT_POOL)
            local = self.settings.is_local
            if local:
                self._cores.take(spec.slot, context)
            partition = context.parallelize([spec.slot], 1) if local else self.cluster.partition_for(spec.slot)
            partition.foreachPartition(partial(entry.enter, order))
        except ConnectError:
            raise
        except Exception as error:  # py4j's and Spark's errors share no root
            ending = self._jvm.ending() if self._jvm is not None else None
            reason = slot_problem(error, self.settings.spark.get("spark.local.dir") or str(self._folder))
            raise ConnectError(f"Spark's JVM has ended ({ending})" if ending else reason) from error
        finally:
            self._cores.give_back(spec.slot)

    def cancel_slot(self, slot: int) -> None:
        """Cancel the job of a slot: its `run_slot` fails, and Spark kills its process."""
        with contextlib.suppress(Exception):  # the JVM is going away, and the job with it
            self._context.cancelJobGroup(slot_group(slot))

    def about(self) -> RuntimeInfo:
        """What it is and which executors it has; only after start. Errors: ConnectError when Spark is gone."""
        executors = tuple(
            ExecutorInfo(found.id, found.host, found.slots, found.excluded) for found in self.cluster.executors()
        )
        try:
            context = self._context
            return RuntimeInfo(
                str(context.master), str(context.version), str(context.applicationId), context.uiWebUrl, executors
            )
        except Exception as error:  # py4j's and Spark's errors share no root; the context ends with the worker
            raise ConnectError(f"Spark does not answer: {error}") from error

    def note_daemon(self, pid: int) -> None:
        """Remember a Python daemon of Spark on this machine, so that `stop` waits for its end."""
        if born := birth(pid):
            self._daemons[pid] = born

    def make_archive_in_background(self) -> None:
        """Have the class archive made by another process, unless there is one. Never blocks."""
        make_archive_in_background(self.archive, self.settings.cache)

    @property
    def archive(self) -> ClassArchive:
        """The class archive of this Java and Spark. Errors: EnvironmentProblemError when there is no Java."""
        if self._archive is None:
            self._archive = spark_archive(self.settings.cache, find_java("Spark"))
        return self._archive

    def run_job(self) -> None:
        """Run an empty job, for the classes that it loads. Errors: ConnectError."""
        try:
            self._context.parallelize([0], 1).foreachPartition(list)
        except Exception as error:  # py4j's and Spark's errors share no root
            raise EnvironmentProblemError(f"Spark cannot run a job: {_reason(error)}") from error

    def collect_garbage(self) -> None:
        """Have the JVM collect all garbage; blocks as long. Errors: those of py4j once it has ended."""
        self._context._jvm.java.lang.System.gc()

    def kill(self) -> None:
        """Kill the JVM from any thread, and remove our folders; for a process that is about to exit."""
        if self._jvm is not None:
            self._jvm.kill()
        self._end_waiting_daemon()
        self.remove_folder()

    @property
    def context(self) -> Any:
        """The SparkContext; only between start and stop."""
        return self._context

    def stop(self, timeout_s: float) -> None:
        """End Spark, the JVM and all below it, and remove our folders. Idempotent."""
        self._stopping.set()
        self.started.clear()
        deadline_s = time.monotonic() + timeout_s
        # Still starting: without its JVM the start fails at once. On a cluster it may finish if there is time, so that
        # the application ends in order there; on this machine nothing is lost, and waiting would cost 2 s.
        patience_s = _KILL_AGAIN_S if self.settings.is_local else max(timeout_s - 2.0, 0.1)
        while not self._lock.acquire(timeout=patience_s):
            if self._jvm is not None:
                self._jvm.kill()
            patience_s = _KILL_AGAIN_S
        try:
            context, self._context = self._context, None
            if context is not None:
                if self._jvm is not None and self._jvm.ending():
                    context._jsc = None  # pyspark would tell nobody, warn of it, and leave its threads
                stopper = threading.Thread(target=_stop_context, args=(context,), name="spark-stop", daemon=True)
                stopper.start()
                stopper.join(max(deadline_s - time.monotonic() - 1.0, 0.1))
            if self._jvm is not None:
                self._jvm_session = self._jvm.pid or self._jvm_session
                self._jvm.stop(deadline_s - time.monotonic())
            self._end_waiting_daemon()
            if context is not None:
                _forget_context(context)
            self.remove_folder()
        finally:
            self._lock.release()

    def end_daemons(self, timeout_s: float) -> None:
        """After `stop`: wait for Spark's Python daemons, and kill those that stay.

        The imports of one that has just started outlast the JVM by a second.
        """
        members = session_members(self._jvm_session) if self._jvm_session else {}
        if killed := await_end(self._daemons | members, timeout_s):
            log.debug("Python daemons of Spark had to be killed: %s", sorted(killed))

    def _end_waiting_daemon(self) -> None:
        daemon, self._daemon = self._daemon, None
        if daemon is not None:
            daemon.stop()

    def remove_folder(self) -> None:
        """Remove what we wrote to the system's folder for temporary files. Idempotent."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _ship(self) -> None:
        """Ship kconnect and the plugin folders to the executors. Errors: EnvironmentProblemError."""
        assert self._folder is not None
        cache, ships = self.settings.cache / "shipped", shipments(self.settings.plugin_path)
        try:
            for ship in ships:
                packed = pack(ship, cache, self._folder)
                self._context.addArchive(f"{packed}#{ship.unpacked_as}")
        except OSError as error:
            raise EnvironmentProblemError(
                f"Cannot pack the files that executors need: {error}", hint="Set KCONNECT_CACHE to a folder with room."
            ) from error
        except Exception as error:  # py4j's and Spark's errors share no root
            master = self.settings.spark.get("spark.master")
            if self.cluster.is_ended:  # Spark returns a context before it knows that no master accepts the application
                raise EnvironmentProblemError(
                    f"Spark gave up on {master}: something listens there, but it does not answer like a Spark master.",
                    hint="Check spark.master, and the master's log.",
                ) from error
            raise EnvironmentProblemError(
                f"{master} did not accept the files that executors need: {_reason(error)}"
            ) from error
        self._shipped_plugins = tuple(ship.unpacked_as for ship in ships[1:])

    def _start_jvm(self, archive_flags: Sequence[str]) -> Any:
        """The gateway of the JVM, which may have been launched before. Errors: ConnectError."""
        spark, settings = self.settings.spark, self.settings
        with package_turn(spark, settings.cache, settings.start_timeout_s, self._stopping):
            jvm = self._jvm or self._launch_jvm(archive_flags)
            # pyspark's own import takes 0.2 s: let it happen while the JVM starts
            import pyspark.java_gateway  # noqa: F401

            try:
                gateway = jvm.connect(settings.start_timeout_s)
            except ConnectError:
                jvm.stop(0.1)
                raise
        note_step("Spark's JVM answers")
        return gateway

    def _launch_jvm(self, archive_flags: Sequence[str]) -> Jvm:
        """Launch a JVM; call with the lock held."""
        if self._folder is None:
            self._folder = made_temporary("kconnect-spark")
        with contextlib.suppress(FileNotFoundError):
            (self._folder / "gateway").unlink()
        jvm = Jvm(self._folder)
        conf = spark_conf(self.settings, self._folder)
        use = recording(self.archive.unfinished) if self._records_classes else archive_flags
        own = [
            *FAST_FLAGS,
            *(() if self.settings.query_cores else _SMALL_HEAP),  # rows of queries pass through the heap
            *use,
            f"-XX:ErrorFile={self._folder}/hs_err_%p.log",
            f"-Djava.io.tmpdir={self._folder}",
        ]
        users = conf.get("spark.driver.extraJavaOptions", "")
        if "log4j" not in users and not _has_own_log4j():
            own.append(f"-Dlog4j2.configurationFile=file:{log4j_properties(self._folder)}")
        local = {"SPARK_LOCAL_IP": "127.0.0.1"} if self.settings.is_local and "SPARK_LOCAL_IP" not in os.environ else {}
        jvm.start(conf, " ".join([*own, users]).strip(), local)
        self._jvm = jvm  # a stop meanwhile finds one that can be killed
        note_step("Spark's JVM is launched")
        if self._daemon is None and starts_our_daemon(conf, self.settings):
            daemon = WaitingDaemon(self._folder)
            self._daemon = daemon if daemon.start() else None
        return jvm

    def _start_context(self, gateway: Any) -> Any:
        from pyspark import SparkConf, SparkContext

        assert self._folder is not None
        assert self._jvm is not None
        # A worker that is killed leaves no folder: its JVM sees the end of its input, and takes the folder along
        hooks = gateway.jvm.org.apache.spark.util.ShutdownHookManager
        hooks.registerShutdownDeleteDir(gateway.jvm.java.io.File(str(self._folder)))
        if not is_known_user():  # Hadoop's login asks for a name: it would fail with a NullPointerException
            users = gateway.jvm.org.apache.hadoop.security.UserGroupInformation
            users.setLoginUser(users.createRemoteUser(os.environ.get("HADOOP_USER_NAME") or str(os.getuid())))
        conf = SparkConf(loadDefaults=False)
        for key, value in spark_conf(self.settings, self._folder).items():
            conf.set(key, value)
        try:
            with warn_while_queued(conf.get("spark.master") or "", self.settings.start_timeout_s):
                # A plain context: a SparkSession takes another second, and slots need none.
                context = SparkContext(conf=conf, gateway=gateway)
        except Exception as error:  # py4j's and Spark's errors share no root
            reason = _reason(error)
            self._jvm.stop(0.1)
            _forget_context(None)
            raise EnvironmentProblemError(
                f"Spark cannot start with master {conf.get('spark.master')}: {reason}",
                hint="Check the spark.* settings of the worker.",
            ) from error
        from pyspark.cloudpickle import register_pickle_by_value

        register_pickle_by_value(entry)  # type: ignore[no-untyped-call]  # pyspark has no types here
        # Ours has no accumulators; that the JVM closes their connection first would print a trace
        context._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign]
        if context.uiWebUrl:
            log.info("Spark UI at %s", context.uiWebUrl)
        context.pythonExec = executors_python(self.settings) if self._daemon is None else self._daemon.python
        return context


def _of_jvm(settings: SparkSettings) -> tuple[object, ...]:
    """What a JVM is launched with."""
    return dict(settings.spark), settings.slot_count(), settings.query_room(), settings.query_cores, settings.cache


def _import_path(settings: SparkSettings) -> list[str]:
    """Extra import path of a slot: folders on the worker's path, where they exist.

    On a cluster without what is installed here, which would hide what the executors' own Python lacks, and without
    plugin folders, which are shipped.
    """
    paths = [os.path.abspath(path) for path in sys.path]
    if settings.is_local:
        return paths
    left_out = [Path(sys.prefix), Path(sys.base_prefix), *(ship.source for ship in shipments(settings.plugin_path))]
    return [path for path in paths if not any(Path(path).is_relative_to(folder) for folder in left_out)]


def _silence_py4j() -> None:
    """Drop py4j's log: it logs every connection at INFO, and each broken one with a trace, on the root logger.

    Every failure is raised as well, and we report it in a sentence.
    """
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


def _stop_context(context: Any) -> None:
    with contextlib.suppress(Exception):  # the rest ends with the JVM
        context.stop()
        context._gateway.shutdown()


def _forget_context(context: Any) -> None:
    """Let this process create another context later: pyspark keeps the first one's gateway in class attributes."""
    from pyspark import SparkContext

    with SparkContext._lock:
        if context is None or SparkContext._active_spark_context in (None, context):
            SparkContext._active_spark_context = None
            SparkContext._gateway = None
            SparkContext._jvm = None


def _has_own_log4j() -> bool:
    folder = os.environ.get("SPARK_CONF_DIR")
    return folder is not None and any(Path(folder).glob("log4j2.*"))


def slot_problem(error: Exception, folder: str) -> str:
    """Why the job of a slot has failed. `folder`: where Spark, and PySpark for it, write files."""
    reason = _reason(error)
    if not any(os.strerror(number) in reason for number in (errno.ENOSPC, errno.EDQUOT)):
        return reason
    reason = re.sub(r"^\[Errno \d+\] ", "", reason).removesuffix(".")
    return f"{reason}: {folder} (spark.local.dir, which is below TMPDIR if it is not set)"


def _reason(error: Exception) -> str:
    """The last cause in an error of py4j or Spark, as one line."""
    text = str(error)
    causes: list[str] = re.findall(r"^(?:Caused by: |: )?[\w.$]*(?:Exception|Error): (.+)$", text, re.MULTILINE)
    return causes[-1].strip() if causes else (text.strip().splitlines() or [type(error).__name__])[-1]
