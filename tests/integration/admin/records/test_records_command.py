"""`connect records` on a real broker: ranges, decoding, filters, forms, and what goes wrong."""

from __future__ import annotations

import io
import json
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread

import pytest
from confluent_kafka import Producer

from kconnect.admin.records import Range, TopicRecords
from kconnect.java.devbroker import DevBroker
from kconnect.model import Edge
from kconnect_cli.app import run
from kit.cli import CliResult, cli_env, connect_command
from kit.pace import ample_s
from kit.topics import create_topic, produce_lines, topic_for
from kit.waiting import eventually

pytestmark = [pytest.mark.broker]


class Topics:
    """The topics of this file, and the command on them."""

    def __init__(self, folder: Path, broker: DevBroker) -> None:
        self.folder, self.broker = folder, broker
        self.now_ms = int(time.time() * 1000)
        self.orders, self.odd, self.open = "records-orders", "records-odd", "records-open"

    def records(self, *args: str, expect: int = 0, brokers: str | None = None) -> CliResult:
        """Run `connect records ARGS` in this process."""
        with pytest.MonkeyPatch.context() as patch:
            out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True), io.StringIO()
            for name, stream in (("stdin", io.StringIO()), ("stdout", out), ("stderr", err)):
                patch.setattr(sys, name, stream)
            patch.setenv("XDG_CONFIG_HOME", str(self.folder / "config"))
            code = run(("records", *args, "--bootstrap-servers", brokers or self.broker.bootstrap))
            out.seek(0)
            reported = out.read()
        assert code == expect, f"connect records {args} ended with {code}\n{reported}\n{err.getvalue()}"
        return CliResult(code, reported, err.getvalue())

    def ago(self, seconds: int) -> str:
        """So long before the last order: that was now when the topics were made, which may be minutes ago."""
        return f"-{seconds + int(time.time() - self.now_ms / 1000)}s"

    def ids(self, *args: str) -> list[int]:
        """The ids in the orders that are shown."""
        return [row["value"]["id"] for row in self.records(self.orders, *args, "-o", "json").json]


@pytest.fixture(scope="module")
def topics(broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    found = Topics(tmp_path_factory.mktemp("records"), broker)
    create_topic(broker.bootstrap, found.orders, partitions=3)
    create_topic(broker.bootstrap, found.odd)
    create_topic(broker.bootstrap, found.open)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
    for number in range(300):  # one a minute, the last one now
        producer.produce(
            found.orders,
            json.dumps({"id": number, "amount": number % 10, "who": {"name": "Änn"}}).encode(),
            f"k{number % 5}".encode(),
            number % 3,
            timestamp=found.now_ms - (299 - number) * 60_000,
            headers=[("trace", str(number).encode())],
        )
    for value in (
        b'{"a": 1}',
        None,
        b"\x1b[31mred",
        struct.pack(">q", 42),
        b"\x00\x00\x00\x00\x0c\x06abc",
        b"x" * 500_000,
    ):
        producer.produce(found.odd, value, b"\xff\x00", headers=[("\x1b[1m", b"\x1b[2J"), ("none", None)])
    producer.flush(ample_s(30))
    # The brokers' most: the last transaction stays open until all tests are through
    held = {"transactional.id": "records-open", "transaction.timeout.ms": 900_000}
    writer = Producer({"bootstrap.servers": broker.bootstrap, **held})
    writer.init_transactions(ample_s(30))
    for value, end in (
        (b"committed", writer.commit_transaction),
        (b"aborted", writer.abort_transaction),
        (b"open", None),
    ):
        writer.begin_transaction()
        writer.produce(found.open, value)
        writer.flush(ample_s(30))
        if end is not None:
            end(ample_s(30))
    yield found
    writer.abort_transaction(ample_s(30))


def test_the_last_ten_records_are_shown_by_time_over_partitions(topics: Topics) -> None:
    assert topics.ids() == list(range(290, 300))
    assert topics.ids("--last", "70") == list(range(230, 300))
    assert topics.ids("--last", "0") == []
    assert topics.ids("--last", "2", "--partition", "0") == [294, 297]
    (row,) = topics.records(topics.orders, "--last", "1", "-o", "jsonl").stdout.splitlines()
    found = json.loads(row)
    assert found.pop("timestamp").endswith("Z")
    assert found == {
        "topic": topics.orders,
        "partition": 2,
        "offset": 99,
        "timestamp_type": "CreateTime",
        "key": "k4",
        "value": {"id": 299, "amount": 9, "who": {"name": "Änn"}},
        "headers": [{"key": "trace", "value": "299"}],
        "size": 55,
        "decoded": {"key": "text", "value": "json"},
    }


def test_a_range_begins_at_a_time_an_offset_or_an_end(topics: Topics) -> None:
    assert topics.ids("--from", "earliest") == list(range(300))
    assert topics.ids("--from", "latest") == []
    assert topics.ids("--from", topics.ago(150)) in ([297, 298, 299], [298, 299])  # the clock has gone on since
    assert topics.ids("--from", "earliest", "--limit", "4") == [0, 1, 2, 3]
    assert topics.ids("--offset", "99") == [297, 298, 299]
    assert topics.ids("--offset", "98", "--partition", "1") == [295, 298]
    assert topics.ids("--from", "2000-01-01", "--until", "-290m")[:3] == [0, 1, 2]
    assert topics.ids("--until", topics.ago(290 * 60), "--last", "2")[-1] < 10


def test_records_are_chosen_by_key_and_by_a_condition(topics: Topics) -> None:
    assert topics.ids("--key", "k3", "--last", "2") == [293, 298]
    assert topics.ids("--key", "base64:azM=", "--last", "1") == [298]
    where = "amount = 9 and _key = 'k4' and who.name like 'Ä%' and _offset < 90 and _headers['trace'] <> '259'"
    assert topics.ids("--where", where, "--last", "2") == [249, 269]
    assert topics.ids("--where", "_partition = 1 and id < 8", "--from", "earliest") == [1, 4, 7]


def test_what_a_person_sees_fits_on_lines(topics: Topics) -> None:
    lines = topics.records(topics.orders, "--last", "1", "--headers").stdout.splitlines()
    assert lines[0].split() == ["PLACE", "TIME", "KEY", "VALUE"]
    assert lines[1].startswith("2:99 ")
    assert lines[1].endswith('Z k4           {"id":299,"amount":9,"who":{"name":"Änn"}}')
    assert lines[2:] == ["    trace: 299"]


def test_odd_records_never_end_the_command_nor_reach_the_terminal(topics: Topics) -> None:
    shown = topics.records(topics.odd, "--headers").stdout
    assert "\x1b" not in shown
    assert len(max(shown.splitlines(), key=len)) < 3000
    assert "0xff00" in shown
    assert "\\x1b[31mred" in shown
    values = [row["value"] for row in topics.records(topics.odd, "-o", "json").json]
    assert values[:5] == [{"a": 1}, None, "\x1b[31mred", 42, {"base64": "AAAAAAwGYWJj"}]
    assert values[5] == "x" * 500_000
    raw = topics.records(topics.odd, "-o", "raw", "--last", "6").stdout
    assert raw.startswith('{"a": 1}\n\n\x1b[31mred\n')


def test_what_a_workers_converter_cannot_read_is_guessed(topics: Topics, tmp_path: Path) -> None:
    worker = tmp_path / "worker.properties"
    worker.write_text("key.converter=StringConverter\nvalue.converter=JsonConverter\n")
    rows = topics.records(topics.odd, "--worker", str(worker), "-o", "json").json
    assert [row["decoded"]["value"] for row in rows] == [
        "json",
        "null",
        "text",
        "long",
        rows[4]["decoded"]["value"],
        "text",
    ]
    assert not any("errors" in row for row in rows)


def test_only_what_was_committed_is_shown_and_open_transactions_are_reported(topics: Topics) -> None:
    done = topics.records(topics.open, "-o", "raw")
    assert done.stdout == "committed\n"
    assert f"{topics.open}-0: a transaction is open from offset 4" in done.stderr
    assert topics.records(topics.open, "--uncommitted", "-o", "raw").stdout.split() == ["committed", "aborted", "open"]


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("records-ordres",), 3, ("Topic 'records-ordres' does not exist", "Did you mean records-orders")),
        (("records-orders", "--partition", "9"), 3, ("has no partition 9", "partitions 0 to 2")),
        (("records-orders", "--offset", "101"), 1, ("Offset 101 is beyond the end", "records-orders-0 ends at 100")),
        (("records-orders", "--offset", "1", "--last", "2"), 2, ("--offset cannot be combined with --last",)),
        (("records-orders", "--from", "soon"), 2, ("--from soon is not a time",)),
        (("records-orders", "--follow", "--until", "1h"), 2, ("--follow cannot be combined with --until",)),
        (("records-orders", "--where", "amount >"), 1, ("The condition cannot be used",)),
        (("records-orders", "--key", "base64:!"), 1, ("is not base64",)),
        (("records-orders", "-o", "xml"), 2, ("'xml' is not one of table, json, jsonl, raw",)),
        (("records-orders", "--from", "latest"), 0, ("No records of records-orders are in this range.",)),
        (("records-orders", "--key", "none"), 0, ("No records of records-orders match.",)),
        (("records-odd", "--where", "a = 1"), 0, ("The condition has no answer for 4 records", "records-odd-0@2")),
    ],
)
def test_mistakes_are_named(topics: Topics, args: tuple[str, ...], code: int, words: tuple[str, ...]) -> None:
    reported = topics.records(*args, expect=code).stderr
    assert all(word in reported for word in words), reported


def test_names_of_topics_are_completed(topics: Topics, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("records", "--bootstrap-servers", topics.broker.bootstrap, "records-o")

    def offered() -> list[str]:
        """Brokers are asked for half a second, which may be too short for a busy machine."""
        assert run(("complete", "--", *words)) == 0
        return sorted(capsys.readouterr().out.splitlines())

    assert eventually(offered, why="topics are offered") == [
        "records-odd\t1 partition",
        "records-open\t1 partition",
        "records-orders\t3 partitions",
    ]
    assert run(("complete", "--", "records", "--bootstrap-servers", "127.0.0.1:1", "")) == 0
    assert capsys.readouterr().out == ""


def test_a_broker_that_is_not_there_is_reported_at_once(topics: Topics) -> None:
    begin = time.monotonic()
    reported = topics.records(topics.orders, brokers="127.0.0.1:1", expect=5).stderr
    assert "No Kafka broker answers at 127.0.0.1:1" in reported
    assert time.monotonic() - begin < ample_s(3)


def test_following_shows_records_as_they_come_and_ends_cleanly_on_ctrl_c(topics: Topics, home: Path) -> None:
    arguments = [
        "records",
        topics.orders,
        "-n",
        "1",
        "--follow",
        "-o",
        "json",
        "--bootstrap-servers",
        topics.broker.bootstrap,
    ]
    command = subprocess.Popen(
        [*connect_command(), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=cli_env(home)
    )
    try:
        lines: list[str] = []
        _read_until(command, lines, lambda: any('"size"' in line for line in lines))
        producer = Producer({"bootstrap.servers": topics.broker.bootstrap})
        producer.produce(topics.orders, b'{"id": 999}', partition=1, timestamp=1)
        producer.flush(ample_s(30))
        _read_until(command, lines, lambda: any('"id": 999' in line for line in lines))
        command.send_signal(2)
        assert command.wait(ample_s(10)) == 130
        assert command.stdout is not None
        assert command.stderr is not None
        rest, err = command.stdout.read(), command.stderr.read()
    finally:
        command.kill()
        command.communicate()
    assert err == ""
    assert [row["value"]["id"] for row in json.loads("".join(lines) + rest)] == [299, 999]


def _read_until(command: subprocess.Popen[str], lines: list[str], done: Callable[[], bool]) -> None:
    assert command.stdout is not None
    while not done():
        line = command.stdout.readline()
        assert line, command.stderr.read() if command.stderr else ""
        lines.append(line)


def test_a_broker_that_goes_away_is_waited_for_while_following(
    own_broker: DevBroker, request: pytest.FixtureRequest
) -> None:
    followed = topic_for(request)
    create_topic(own_broker.bootstrap, followed)
    produce_lines(own_broker.bootstrap, followed, ["before"])
    settings = {"bootstrap.servers": own_broker.bootstrap, "reconnect.backoff.max.ms": 500}
    notes: list[str] = []
    with TopicRecords(followed, settings, settings, 10, note=notes.append) as topic:
        values: list[bytes | None] = []
        stop = Event()

        def follow() -> None:
            for record in topic.records(Range(Edge.EARLIEST), lambda record: record, follow=stop):
                values.append(record.value)

        thread = Thread(target=follow, name="follow")
        thread.start()
        eventually(lambda: values == [b"before"], 20, "it follows")
        own_broker.stop()
        eventually(lambda: any("do not answer" in note for note in notes), 20, "the outage is reported")
        own_broker.start()
        eventually(lambda: "The brokers are back." in notes, 30, "the return is reported")
        produce_lines(own_broker.bootstrap, followed, ["after"])
        eventually(lambda: values == [b"before", b"after"], 30, "the record after the outage is shown")
        stop.set()
        thread.join(ample_s(10))
        assert not thread.is_alive()
