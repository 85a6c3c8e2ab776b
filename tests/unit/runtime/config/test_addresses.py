"""Addresses of brokers: what is taken, what is refused, in which words and where."""

from __future__ import annotations

import pytest

from kconnect.errors import ConfigError
from kconnect.runtime.config.addresses import canonical_servers, check_servers, parse_servers
from kconnect.runtime.config.client_config import admin_config, consumer_config, producer_config
from kconnect.runtime.config.worker_config import StandaloneConfig

WORKER = {
    "bootstrap.servers": "localhost:9092",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "offset.storage.file.filename": "offsets",
}
HINT = "Write each broker as host:port, such as localhost:9092 or [::1]:9092; ports go from 1 to 65535."


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("localhost:9092", "localhost:9092"),
        (" a:1 , b:2 ", "a:1,b:2"),
        ("[::1]:9092", "[::1]:9092"),
        ("::1:9092", "[::1]:9092"),
        (":9092", "localhost:9092"),
        ("PLAINTEXT://a:1,SASL_SSL://b:2", "a:1,b:2"),
        ("[10.0.0.1]:09092", "10.0.0.1:9092"),
        ("a:1,a:1", "a:1,a:1"),
        ("a:1,localhost::2", "a:1"),
    ],
)
def test_what_java_takes_is_taken_and_written_as_librdkafka_reads_it(text, found):
    assert canonical_servers(text) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("localhost:abc", "Invalid url in bootstrap.servers: localhost:abc"),
        ("localhost", "Invalid url in bootstrap.servers: localhost"),
        ("localhost:", "Invalid url in bootstrap.servers: localhost:"),
        ("local host:1", "Invalid url in bootstrap.servers: local host:1"),
        ("localhost: 1", "Invalid url in bootstrap.servers: localhost: 1"),
        ("http://localhost:9092/", "Invalid url in bootstrap.servers: http://localhost:9092/"),
        ("a:1,b", "Invalid url in bootstrap.servers: b"),
        ("localhost:0", "Invalid port in bootstrap.servers: localhost:0"),
        ("localhost:70000", "Invalid port in bootstrap.servers: localhost:70000"),
        ("localhost:9092,", "Configuration 'bootstrap.servers' values must not be empty."),
        ("localhost::9092", "No resolvable bootstrap urls given in bootstrap.servers"),
        ("", "No resolvable bootstrap urls given in bootstrap.servers"),
    ],
)
def test_what_is_malformed_is_refused_in_java_s_words_with_the_way_out(text, message):
    with pytest.raises(ConfigError) as refused:
        parse_servers(text)
    assert str(refused.value) == message
    assert refused.value.hint == HINT
    assert refused.value.problems[0].key == "bootstrap.servers"


@pytest.mark.parametrize("client", ["", "producer.", "consumer.", "admin."])
def test_a_worker_file_is_refused_for_the_brokers_of_any_of_its_clients(client):
    key = f"{client}bootstrap.servers"
    props = {**WORKER, key: "localhost:abc"}
    with pytest.raises(ConfigError, match=rf"^Invalid url in {key}: localhost:abc$"):
        check_servers(props)
    with pytest.raises(ConfigError, match=rf"^Invalid url in {key}: localhost:abc$"):
        StandaloneConfig.parse(props)


def test_clients_get_what_librdkafka_reads_and_refuse_what_it_would_not():
    override = {"producer.override.bootstrap.servers": "::1:9092", "consumer.override.bootstrap.servers": ":1"}
    assert producer_config(WORKER, override, client_id="p")[0]["bootstrap.servers"] == "[::1]:9092"
    assert consumer_config(WORKER, override, client_id="c", group_id="g")[0]["bootstrap.servers"] == "localhost:1"
    assert admin_config(WORKER, client_id="a")[0]["bootstrap.servers"] == "localhost:9092"
    wrong = {"producer.override.bootstrap.servers": "localhost:abc"}
    with pytest.raises(ConfigError, match=r"^Invalid url in producer\.override\.bootstrap\.servers: localhost:abc$"):
        producer_config(WORKER, wrong, client_id="p")
