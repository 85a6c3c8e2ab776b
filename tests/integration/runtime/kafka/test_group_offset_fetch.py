"""All offsets of a consumer group, also from a broker whose coordinator is not ready yet."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kconnect.errors import UnreachableError
from kconnect.model import TopicPartition
from kconnect.runtime.herder.offsets.consumer_groups import kafka_group_offsets
from kconnect.runtime.herder.offsets.group_offset_fetch import fetch_group_offsets
from kit.brokers import PatientBroker
from kit.ports import free_port
from kit.topics import create_topic

pytestmark = pytest.mark.broker

_WITHIN_S = 60.0
# In a process of its own: librdkafka's own request ended it with a segmentation fault
_FIRST_LOOK = """
import sys
from kconnect.runtime.herder.offsets.consumer_groups import kafka_group_offsets
with kafka_group_offsets({"bootstrap.servers": sys.argv[1]}, 60.0, timeout_setting="t")({"name": "s"}) as groups:
    print(groups.list_offsets("connect-s"))
"""


def test_the_first_look_at_a_fresh_broker_waits_for_its_coordinator(tmp_path):
    with PatientBroker(free_port(), tmp_path / "fresh") as fresh:
        looks = [
            subprocess.Popen([sys.executable, "-c", _FIRST_LOOK, fresh.bootstrap], stdout=subprocess.PIPE, text=True)
            for _ in range(3)
        ]
        found = [(look.communicate(timeout=_WITHIN_S + 30)[0], look.returncode) for look in looks]
    assert found == [("{}\n", 0)] * 3


def test_offsets_of_all_topics_are_read_and_those_that_are_gone_are_not(broker, topic):
    create_topic(broker.bootstrap, f"{topic}-b", partitions=2)
    settings = {"bootstrap.servers": broker.bootstrap}
    wanted = {TopicPartition(topic, 0): 3, TopicPartition(f"{topic}-b", 0): 0, TopicPartition(f"{topic}-b", 1): 2**40}
    with kafka_group_offsets(settings, _WITHIN_S, timeout_setting="t")({"name": "s"}) as groups:
        groups.alter_offsets(topic, wanted)
        assert groups.list_offsets(topic) == wanted
        groups.delete_offsets(topic, [TopicPartition(topic, 0)])
        del wanted[TopicPartition(topic, 0)]
        assert groups.list_offsets(topic) == wanted
        assert groups.list_offsets(f"{topic}-none") == {}


def test_brokers_that_do_not_answer_end_it_at_its_deadline():
    settings = {"bootstrap.servers": f"127.0.0.1:{free_port()}"}
    with pytest.raises(UnreachableError, match=r"cannot be read within 2 s \(request\.time\)"):
        fetch_group_offsets(settings, "g", 2, timeout_setting="request.time")
