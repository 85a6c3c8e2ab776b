"""Our catalogue of metrics against the list that Java itself prints."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from kconnect.java.devbroker import JarSet, find_java
from kconnect.runtime.metrics import CATALOGUE
from kit.pace import ample_s

pytestmark = pytest.mark.java

ROW = re.compile(r"<tr>\n<td>(?P<name>.*?)</td>\n<td>.*?</td>\n<td>kafka\.connect:type=(?P<bean>.*?)</td>", re.DOTALL)


def test_the_catalogue_has_every_metric_of_java_with_its_tags_and_no_other():
    java = find_java("Java Connect in tests")
    jars = os.pathsep.join(str(jar) for jar in JarSet("connect").fetch())
    printed = subprocess.run(
        [str(java.executable), "-cp", jars, "org.apache.kafka.connect.runtime.ConnectMetrics"],
        capture_output=True,
        text=True,
        timeout=ample_s(60),
        check=True,
    ).stdout
    found = set()
    for row in ROW.finditer(printed):
        group, *tags = row["bean"].split(",")
        found.add((group, row["name"], tuple(tag.split("=")[0] for tag in tags)))
    assert len(found) > 80, "Java prints its catalogue"
    assert found == {(metric.group, metric.name, metric.tags) for metric in CATALOGUE}
