"""The executors of a running Spark application, and jobs that run in the executor we choose."""

from __future__ import annotations

import json
import logging
import pickle
import threading
from typing import Any

from kconnect.errors import ConnectError
from kconnect.spark.executors import Executor, Homes, RunningSlot, executors_of

log = logging.getLogger(__name__)


class ClusterView:
    """Executors of a SparkContext, and which slot runs in which. Threads: all methods from any."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._lock = threading.Lock()  # guards the homes; never held while Spark is asked
        self._homes = Homes()

    @property
    def is_ended(self) -> bool:
        """Whether Spark has ended the application by itself: the cluster removed it, or its master is gone."""
        return bool(self._context._jsc.sc().isStopped())

    def executors(self) -> list[Executor]:
        """The live executors. Errors: ConnectError when Spark no longer answers."""
        try:
            summaries = self._context._jsc.sc().statusStore().executorList(True)
            # One JSON text for all: asked one by one, fifty executors would take 300 calls
            writer = self._context._jvm.org.apache.spark.status.api.v1.JacksonMessageWriter()
            return executors_of(json.loads(writer.mapper().writeValueAsString(summaries)))
        except Exception as error:  # py4j's and Spark's errors share no root
            raise ConnectError(f"Spark cannot list its executors: {error}") from error

    def partition_for(self, slot: int) -> Any:
        """An RDD of one partition that prefers the best executor for the slot; Spark alone spreads at random.

        Spark runs it elsewhere when that executor is lost or still busy after spark.locality.wait.
        """
        from pyspark import RDD
        from pyspark.serializers import CPickleSerializer

        executors = self.executors()
        with self._lock:
            home = self._homes.choose(slot, executors)
        if home is None:
            return self._context.parallelize([slot], 1)
        jvm = self._context._jvm
        to_seq = jvm.org.apache.spark.api.python.PythonUtils.toSeq
        kind = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("[B"))
        element = jvm.scala.Tuple2(bytearray(pickle.dumps(slot)), to_seq([home.location]))
        partitions = self._context._jsc.sc().makeRDD(to_seq([element]), kind)
        return RDD(partitions.toJavaRDD(), self._context, CPickleSerializer())

    def settled(self, slot: int) -> None:
        """A slot is up: note which executor Spark chose."""
        running = self.running(slot)
        with self._lock:
            self._homes.settled(slot, running.executor if running else None)

    def running(self, slot: int) -> RunningSlot | None:
        """Where Spark runs a slot, whether it has said hello or not; None while unknown."""
        try:
            tracker = self._context._jsc.sc().statusTracker()
            store = self._context._jsc.sc().statusStore()
            for job in tracker.getJobIdsForGroup(slot_group(slot)):
                found = tracker.getJobInfo(job)
                for stage in found.get().stageIds() if found.isDefined() else ():
                    tasks = store.taskList(stage, 0, 1 << 10)
                    running = [tasks.apply(index) for index in range(tasks.size())]
                    executors = [str(task.executorId()) for task in running if task.status() == "RUNNING"]
                    if executors:
                        return RunningSlot(executors[0], int(job))
        except Exception as error:  # py4j's and Spark's errors share no root; only shown to operators
            log.debug("The executor of slot %d is not known: %s", slot, error)
        return None


def slot_group(slot: int) -> str:
    """Spark's job group of a slot."""
    return f"kconnect-slot-{slot}"
