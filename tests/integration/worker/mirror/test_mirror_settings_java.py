"""What MirrorMaker 2 (Java, 4.3) derives from mm2.properties and what we do: settings of workers and connectors.

KCONNECT_RANDOM_CASES=100000 makes more files, KCONNECT_RANDOM_SEED others.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kconnect.api import ConfigDef
from kconnect.errors import ConfigError
from kconnect.java.compat.properties import parse_properties
from kconnect.java.devbroker import JarSet, find_java
from kconnect.runtime.config.security_keys import SASL, SSL
from kconnect.runtime.config.variables import Variables
from kconnect.worker.mirror import Flow, MirrorSettings
from kconnect.worker.mirror.settings import CLIENT, CONNECTOR
from kit.pace import ample_s
from kit.places import KIT

pytestmark = pytest.mark.java

PROGRAM = KIT / "java_programs/MirrorSettings.java"
CASES = int(os.environ.get("KCONNECT_RANDOM_CASES", "400"))
SEED = int(os.environ.get("KCONNECT_RANDOM_SEED", "1"))
# Java's reflective search for plugins takes seconds; it is not what is compared
BASE = {"plugin.discovery": "service_load"}
ALIASES = ("A", "B", "us-east", "eu west", "a.b")
# The example of Kafka's release, config/connect-mirror-maker.properties, with what people add to it
EXAMPLE = b"""
clusters = A, B
A.bootstrap.servers = A_host1:9092, A_host2:9092, A_host3:9092
B.bootstrap.servers = B_host1:9092, B_host2:9092, B_host3:9092
A->B.enabled = true
A->B.topics = .*
B->A.enabled = true
B->A.topics = .*
replication.factor=1
checkpoints.topic.replication.factor=1
heartbeats.topic.replication.factor=1
offset-syncs.topic.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
config.storage.replication.factor=1
A.security.protocol = SASL_SSL
A.sasl.mechanism = PLAIN
A.sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";
A.producer.compression.type = zstd
A.consumer.max.poll.records = 17
ssl.truststore.location = /etc/trust.jks
B.exactly.once.source.support = enabled
A->B.transforms = x
A->B.transforms.x.type = Filter
sync.group.offsets.enabled = true
tasks.max = 4
"""


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The program, compiled into the package of Java's classes: what it calls is not public."""
    classes = tmp_path_factory.mktemp("classes")
    jars = os.pathsep.join(str(jar) for jar in JarSet("connect").fetch())
    program = str(find_java("MirrorMaker").executable)
    compiler = [program, "-m", "jdk.compiler/com.sun.tools.javac.Main"]
    subprocess.run([*compiler, "-d", str(classes), "-cp", jars, str(PROGRAM)], timeout=ample_s(90), check=True)
    main = "org.apache.kafka.connect.mirror.MirrorSettings"
    return [program, "-XX:TieredStopAtLevel=1", "-cp", os.pathsep.join([str(classes), jars]), main]


def java_says(java: list[str], files: list[dict[str, str]]) -> tuple[dict[str, list[str]], list[Any]]:
    """Java's names of settings, and for each file what follows from it: a dict by flow, or an error's text."""
    done = subprocess.run(
        java,
        input="".join(json.dumps(file) + "\n" for file in files),
        capture_output=True,
        text=True,
        timeout=ample_s(300),
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    names, *answers = (json.loads(line) for line in done.stdout.splitlines() if line.startswith(("{", '"')))
    return names, answers


def we_say(file: dict[str, str]) -> Any:
    try:
        settings = MirrorSettings.of(file)
        clusters = settings.clusters()
    except ConfigError as err:
        return str(err)
    pairs = [Flow(one, other) for one in clusters for other in clusters if one != other]
    flows = [flow for flow in pairs if settings.is_enabled(flow) or settings._has_heartbeats(flow)]
    with_references = Variables.of_worker(file)
    return {
        str(flow): {
            "worker": dict(with_references.resolve(settings.worker_config(flow), "the worker").values),
            **settings.connector_configs(flow),
        }
        for flow in flows
    }


def random_file(dice: random.Random, folder: Path) -> dict[str, str]:
    aliases = dice.sample(ALIASES, dice.randint(1, 3))
    made = {**BASE, "clusters": dice.choice((",", ", ")).join(aliases)}
    names = [*sorted(CLIENT - {"security.protocol"}), *sorted(CONNECTOR - CLIENT), "client.id", "group.id", "task.x"]
    names += ["worker.y", "offset.storage.topic", "key.converter.z", "producer.acks", "admin.x", "consumerish", "other"]
    # At the top Java looks at these when it reads the file; here the workers do
    texts = (ConfigDef.Type.STRING, ConfigDef.Type.PASSWORD)
    typed = {row[0] for row in (*SSL, *SASL) if row[1] not in texts or row[3] is not None}
    free = [name for name in names if name not in typed]
    places = ["", *(f"{alias}." for alias in aliases), *(f"{a}->{b}." for a in aliases for b in aliases)]
    for _ in range(dice.randint(0, 30)):
        where = dice.choice(places) + dice.choice(("", "", "", "producer.", "consumer.", "admin."))
        name = dice.choice(names if where else free)
        made[f"{where}{name}"] = dice.choice(("1", "true", "false", "", " x "))
    for place in places:
        if "->" in place and dice.random() < 0.7:
            made[f"{place}enabled"] = dice.choice(("true", "TRUE", "false", "yes"))
    made.pop("config.providers", None)
    if dice.random() < 0.3:
        secret = folder / "secret.properties"
        secret.write_text("key=resolved\n")
        made["config.providers"] = "file"
        made["config.providers.file.class"] = "org.apache.kafka.common.config.provider.FileConfigProvider"
        made[f"{dice.choice(places)}ssl.key.password"] = f"${{file:{secret}:key}}"
    return made


def test_settings_of_workers_and_connectors_are_javas(java: list[str], tmp_path: Path) -> None:
    dice = random.Random(SEED)
    files = [{**BASE, **parse_properties(EXAMPLE)}, {**BASE}]
    files += [{**BASE, "clusters": clusters} for clusters in ("", " ", "A", "A,A", "A,,B", ",", "A , B,")]
    files += [random_file(dice, tmp_path) for _ in range(CASES)]
    names, answers = java_says(java, files)
    assert set(names["client"]) == CLIENT
    assert set(names["connector"]) == CONNECTOR
    assert len(answers) == len(files)
    flows = 0
    for file, theirs in zip(files, answers, strict=True):
        ours = we_say(file)
        if isinstance(theirs, str):
            assert ours == theirs, file
        else:
            assert ours == theirs, file
            flows += len(theirs)
    assert flows > CASES
