"""What an editor's config may connect to, however a host is written."""

from __future__ import annotations

import pytest

from kconnect.runtime.rest.access.limits import Limits
from kit.granted_configs import one, sink, source

HOSTS = ("api.shop.example", "*.lake.example", "10.1.0.0/16", "db.shop.example:5432", "[2001:db8::1]:443")


REACHED = {
    "url": one("HttpJsonSource", url="https://api.shop.example/v1?next=https%3A"),
    "url with a user": one("HttpJsonSource", url="https://u:p@API.shop.example:8443/v1"),
    "network": one("HttpJsonSource", url="http://10.1.200.3:8080/v1"),
    "IPv6": one("HttpJsonSource", url="https://[2001:db8::1]:443/v1"),
    "database": one("SqlSource", **{"connection.url": "jdbc:postgresql://db.shop.example:5432/orders?ssl=true"}),
    "database, SQLAlchemy": one("SqlSink", **{"connection.url": "postgresql://u:p@db.shop.example:5432/o"}),
    "database, arguments": one("SqlSink", **{"connection.driver": "pymysql", "connection.arg.host": "10.1.2.3"}),
    "bucket": one(
        "ObjectSink", **{"object.url": "s3://bucket/x", "object.options.endpoint_url": "http://s3.lake.example"}
    ),
    "brokers": source(**{"producer.override.bootstrap.servers": "a.lake.example:9092, b.lake.example:9092"}),
    "debezium": one("io.debezium.X", **{"database.hostname": "10.1.0.1", "database.port": "3306"}),
    "mongodb": one("X", **{"mongodb.hosts": "rs0/a.lake.example:27017,b.lake.example:27017"}),
    "text": source(transforms="i", **{"transforms.i.static.value": "http://elsewhere/", "header.Referer": "http://x/"}),
    "file": one("FileStreamSource", file="/data/x"),
}


NOT_REACHED = {
    "metadata": one("HttpJsonSource", url="http://169.254.169.254/latest/meta-data/"),
    "this machine": one("HttpJsonSource", url="http://localhost:8083/connectors"),
    "number": one("HttpJsonSource", url="http://2852039166/"),
    "hexadecimal": one("HttpJsonSource", url="http://0xa9.0xfe.0xa9.0xfe/"),
    "IPv6 of this machine": one("HttpJsonSource", url="http://[::1]/"),
    "IPv4 in IPv6": one("HttpJsonSource", url="http://[::ffff:10.1.0.1]/"),
    "user like a host": one("HttpJsonSource", url="http://api.shop.example@evil/"),
    "user with an escape": one("HttpJsonSource", url="http://api.shop.example%2f@evil/"),
    "backslash": one("HttpJsonSource", url="http://api.shop.example\\@evil/"),
    "line end": one("HttpJsonSource", url="http://api.shop.example\n@evil/"),
    "end like a host": one("HttpJsonSource", url="http://evil-api.shop.example.evil/"),
    "another port": one("SqlSource", **{"connection.url": "jdbc:postgresql://db.shop.example:22/orders"}),
    "reference": one("HttpJsonSource", url="http://${env:HOST}/"),
    "whole reference": one("SqlSource", **{"connection.url": "${file:/x:url}"}),
    "token": one("HttpJsonSource", url="https://api.shop.example/", **{"auth.token.url": "http://127.0.0.1/"}),
    "several": one("SqlSource", **{"connection.url": "jdbc:postgresql://db.shop.example:5432,127.0.0.1:5432/x"}),
    "password like a host": one("SqlSource", **{"connection.url": "postgresql://db.shop.example:5432/@evil/x"}),
    "parameter": one("SqlSource", **{"connection.url": "postgresql://db.shop.example:5432/x?host=%65vil"}),
    "no host": one("SqlSource", **{"connection.url": "postgresql:///x"}),
    "no host, JDBC": one("SqlSource", **{"connection.url": "jdbc:postgresql:x"}),
    "no host, driver": one("SqlSource", **{"connection.driver": "psycopg", "connection.url": "dbname=x"}),
    "words": one("SqlSource", **{"connection.driver": "psycopg", "connection.url": "dbname=x host=evil"}),
    "Oracle": one("X", **{"connection.url": "jdbc:oracle:thin:@evil:1521:x"}),
    "Oracle, description": one("X", **{"connection.url": "jdbc:oracle:thin:@(DESCRIPTION=(ADDRESS=(HOST=evil)))"}),
    "SQL Server": one("X", **{"connection.url": "jdbc:sqlserver://;serverName=evil;databaseName=x"}),
    "store's endpoint": one("ObjectSink", **{"object.url": "s3://b", "object.options.endpoint_url": "http://evil/"}),
    "endpoint in JSON": one("ObjectSink", **{"object.options.client_kwargs": '{"endpoint_url": "http:\\/\\/evil"}'}),
    "host in JSON": one("ObjectSink", **{"object.options.target_options": '{"host": "evil"}'}),
    "chained": one("ObjectSource", **{"object.url": "simplecache::http://evil/x"}),
    "sftp": one("ObjectSource", **{"object.url": "sftp://evil/x"}),
    "registry": sink(**{"value.converter.schema.registry.url": "http://api.shop.example,http://evil"}),
    "brokers": source(**{"producer.override.librdkafka.metadata.broker.list": "evil:9092"}),
    "hostname": one("io.debezium.X", **{"database.hostname": "evil"}),
    "no scheme": one("X", **{"connection.url": "evil:9200/x"}),
    "path like a host": one("X", **{"redis.hosts": "evil/api.shop.example"}),
}


@pytest.mark.parametrize("config", REACHED.values(), ids=REACHED)
def test_hosts_hold_what_a_config_connects_to(config):
    assert list(Limits(hosts=HOSTS)._hosts_beyond(config)) == []


@pytest.mark.parametrize("config", NOT_REACHED.values(), ids=NOT_REACHED)
def test_hosts_do_not_hold_another_host_however_it_is_written(config):
    beyond = list(Limits(hosts=HOSTS)._hosts_beyond(config))
    assert beyond
    assert all("is not among the grant's hosts" in sentence for sentence in beyond)
    assert list(Limits()._hosts_beyond(config)) == []
    assert list(Limits(hosts=("*",))._hosts_beyond(config)) == []
