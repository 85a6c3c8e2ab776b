"""What an editor's config may name: each way by which it became code, files or rights that nobody granted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kconnect.errors import ConfigError
from kconnect.runtime.plugins.aliases import BUILTINS
from kconnect.runtime.rest.access.access import Access, DeniedError
from kconnect.runtime.rest.access.callers import Caller
from kconnect.runtime.rest.access.limits import _CODE, Limits
from kconnect.runtime.rest.access.local_paths import local_paths
from kconnect.runtime.rest.access.roles import parse_roles
from kit.granted_configs import one, sink, source

ESCAPES = {
    # Files
    "file source": one("FileStreamSource", file="o.txt", topic="eve-1"),
    "file source, Java's name": one("org.apache.kafka.connect.file.FileStreamSourceConnector", file="/etc/passwd"),
    "file source of Java": one("java:org.apache.kafka.connect.file.FileStreamSourceConnector", file="/etc/passwd"),
    "file sink": one("FileStreamSinkConnector", file="../roles.toml", topics="eve-1"),
    "object source": one("ObjectSource", topic="t", **{"object.url": "/etc/connect"}),
    "object source, URL": one("ObjectSource", topic="t", **{"object.url": "file:///etc/connect"}),
    "object source, scheme": one("ObjectSource", topic="t", **{"object.url": "local://etc/connect"}),
    "object source, chained": one("ObjectSource", topic="t", **{"object.url": "simplecache::file:///etc"}),
    "object source, chained at a store": one("ObjectSource", **{"object.url": "s3://b::file:///etc"}),
    "object sink": one("ObjectSink", topics="t", **{"object.url": "out"}),
    "object sink, up": one("ObjectSink", topics="t", **{"object.url": "s3://b/x", "object.path": "../../y"}),
    "object moved": one("ObjectSource", **{"object.url": "s3://b/x", "object.move.url": "/var/www"}),
    "table sink": one("TableSink", topics="t", **{"table.path": "/etc/cron.d", "table.format": "parquet"}),
    "iceberg catalog": one("TableSink", topics="t", **{"table.catalog.uri": "sqlite:////tmp/c.db"}),
    "iceberg warehouse": one("TableSink", topics="t", **{"table.catalog.warehouse": "file:/tmp/w"}),
    "sqlite": one("SqlSource", **{"connection.url": "jdbc:sqlite:/var/lib/app.db"}),
    "sqlite of SQLAlchemy": one("SqlSink", topics="t", **{"connection.url": "sqlite:////var/lib/app.db"}),
    "sqlite by driver": one("SqlSink", **{"connection.driver": "sqlite3", "connection.database": "app.db"}),
    "sqlite by driver, its first argument": one(
        "SqlSink", **{"connection.driver": "sqlite3", "connection.url": "a.db"}
    ),
    "sqlite by driver, an argument": one(
        "SqlSink", **{"connection.driver": "sqlite3", "connection.arg.database": "file:a.db"}
    ),
    "confluent's jdbc": one("io.confluent.connect.jdbc.JdbcSourceConnector", **{"connection.url": "jdbc:sqlite:a.db"}),
    "schema of a file": sink(**{"value.schema": "/etc/secret.avsc"}),
    "schema of a table": sink(**{"value.schema": "like:/data/table"}),
    "schema of DDL": sink(**{"value.schema": "/etc/secret.ddl"}),
    "schema of DDL, URL": sink(**{"value.schema": "file:secret.txt"}),
    "schema of a topic": sink(**{"value.schema.eve-1": "other/secret.sql"}),
    "schema of a step": source(transforms="w", **{"transforms.w.type": "WithSchema", "transforms.w.schema": "like:t"}),
    "schema of a step, of a topic": source(
        transforms="w", **{"transforms.w.type": "WithSchema", "transforms.w.schema.eve-1": "secret.json"}
    ),
    "key table of a login": source(
        **{
            "database.sasl.jaas.config": 'x.Krb5LoginModule required useKeyTab=true keyTab="/etc/krb5.keytab";',
        }
    ),
    "authority of TLS": source(**{"producer.override.ssl.truststore.location": "/etc/passwd"}),
    "certificate of a client": one("HttpJsonSource", url="https://x", **{"tls.ca.file": "/etc/shadow"}),
    "token from a file": source(**{"producer.override.sasl.oauthbearer.token.endpoint.url": "file:///etc/passwd"}),
    "another's setting": source(**{"transforms.x.input": "/etc/passwd"}),
    "home": source(**{"transforms.x.input": "~/.ssh/id_rsa"}),
    "verifiable file": source(file="/var/www/x"),
    # Code
    "python source": one("PythonSource", function="os:getcwd", topic="t"),
    "python sink": one("PythonSinkConnector", function="os:system", topics="t"),
    "python transformation": source(transforms="x", **{"transforms.x.type": "PythonTransform"}),
    "python transformation, Python's name": source(
        transforms="x", **{"transforms.x.type": "kconnect.builtin.python_function:PythonTransform"}
    ),
    "python predicate": source(predicates="p", **{"predicates.p.type": "PythonPredicate"}),
    "singer": one("SingerSource", **{"singer.command": "sh -c id"}),
    "spark sink": one("SparkSink", topics="t", **{"spark.query": "SELECT java_method('java.lang.System', 'exit', 1)"}),
    "spark source": one("SparkSource", topic="t", **{"spark.query": "SELECT * FROM text.`/etc/passwd`"}),
    "any module": one("antigravity.Fly", topic="t"),
    "any converter": source(**{"value.converter": "subprocess:Popen"}),
    "any converter of a client": source(**{"producer.override.interceptor.classes": "os:system"}),
    "any driver": one("SqlSink", topics="t", **{"connection.driver": "os"}),
    "script of Debezium": source(transforms="f", **{"transforms.f.type": "io.debezium.transforms.Filter"}),
    "login module": source(
        **{"database.sasl.jaas.config": "com.sun.security.auth.module.JndiLoginModule required x=y;"}
    ),
    "driver of MySQL": one("SqlSource", **{"connection.url": "jdbc:mysql://h/d?allowLoadLocalInfile=true"}),
    "driver of PostgreSQL": one("SqlSource", **{"connection.url": "jdbc:postgresql://h/d?socketFactory=x.Y"}),
    "driver, its name encoded": one("SqlSource", **{"connection.url": "mysql://h/d?local%5Finfile=1"}),
    "driver by an argument": one("SqlSource", **{"connection.driver": "pymysql", "connection.arg.local_infile": "1"}),
    "passwords of the driver": one("SqlSource", **{"connection.url": "postgresql://h/d?a=b&passfile=/root/.pgpass"}),
    "defaults of the driver": one(
        "SqlSource", **{"connection.url": "mysql+pymysql://h/d?read_default_file=~%2Fmy.cnf"}
    ),
    "key of the driver": one("SqlSink", topics="t", **{"connection.url": "jdbc:postgresql://h/d?sslkey=client.pem"}),
    "key of the driver, by a setting": one("SqlSink", **{"connection.sslkey": "worker"}),
    "key of the driver, by an argument": one("SqlSink", **{"connection.arg.ssl_key": "worker"}),
    "passwords of the driver, by a setting": one("SqlSource", **{"connection.passfile": "pass"}),
    "passwords of the driver, without an ending": one(
        "SqlSource", **{"connection.url": "postgresql://h/d?a=b&passfile=pass"}
    ),
    "trust of the driver": one("SqlSource", **{"connection.url": "jdbc:sqlserver://h;encrypt=true;trustStore=store"}),
    "authority of the driver": one("SqlSource", **{"connection.sslrootcert": "worker"}),
    "key store of Debezium": source(**{"database.ssl.keystore": "keys"}),
    "key store of a client": source(**{"producer.override.ssl.keystore.location": "keys"}),
    "key of librdkafka": source(**{"producer.override.librdkafka.ssl.key.location": "keys"}),
    "key of another's": source(**{"ssl.key": "worker"}),
    "account of another's": source(**{"gcs.credentials.path": "account"}),
    "driver of MySQL, by a setting": one(
        "SqlSource", **{"connection.url": "mysql://h/d", "connection.local_infile": "true"}
    ),
    "driver of MySQL, in Java's name": source(**{"connection.allowLoadLocalInfile": "true"}),
    "driver of Debezium": source(**{"driver.autoDeserialize": "true"}),
    "class of the driver": one("SqlSource", **{"connection.url": "jdbc:postgresql://h/d?sslhostnameverifier=x.Y"}),
    "class of the driver, behind another": one(
        "SqlSource", **{"connection.url": "jdbc:mysql://h/d?allowLoadLocalInfile=false&propertiesTransform=x.Y"}
    ),
    "name service of the driver": source(**{"db.url": "jdbc:db2://h/d:clientRerouteServerListJNDIName=ldap://evil;"}),
    "login that the driver finds": one("SqlSource", **{"connection.url": "postgresql://h/d?service=shop"}),
    "text of libpq": one("SqlSource", **{"connection.driver": "psycopg", "connection.arg.conninfo": "passfile=x"}),
    "text of libpq, as first argument": one(
        "SqlSource", **{"connection.driver": "psycopg", "connection.url": "host=h passfile = 'my pass'"}
    ),
    "driver by ODBC": one("SqlSource", **{"connection.url": "mssql+pyodbc:///?odbc_connect=Driver%3DSQLite3"}),
    "alias with a dot": source(transforms="a.b", **{"transforms.a.b.type": "PythonTransform"}),
    "predicate with a dot": source(**{"transforms.x.predicate": "a.b", "predicates.a.b.type": "PythonPredicate"}),
    "any class by an alias with a dot": source(transforms="a.b", **{"transforms.a.b.type": "os:system"}),
    "class by a reference": source(transforms="a.b", **{"transforms.a.b.type": "${env:CLASS}"}),
    "router by an alias with a dot": source(
        transforms="a.b", **{"transforms.a.b.type": "RegexRouter", "transforms.a.b.replacement": "connect-configs"}
    ),
    "login module behind Kafka's": source(
        **{"producer.override.sasl.jaas.config": 'x.JndiLoginModule required y="PlainLoginModule";'}
    ),
    "second login module": source(
        **{"producer.override.sasl.jaas.config": "PlainLoginModule required; x.JndiLoginModule required;"}
    ),
    "class of a catalog": one("TableSink", topics="t", **{"table.catalog.py-io-impl": "subprocess.Popen"}),
    "class of a table": one(
        "TableSink", topics="t", **{"table.properties.write.py-location-provider.impl": "runpy.run_path"}
    ),
    "library of a client": source(**{"producer.override.librdkafka.plugin.library.paths": "evil"}),
    "provider of a client's TLS": source(**{"producer.override.librdkafka.ssl.providers": "evil"}),
    "engine of a client's TLS": source(**{"producer.override.ssl.engine.factory.class": "evil"}),
    "command of a client": source(**{"producer.override.librdkafka.sasl.kerberos.kinit.cmd": "sh -c id"}),
    "command of Java's client": source(**{"source.cluster.sasl.kerberos.kinit.cmd": "evil"}),
    "providers of a step": source(
        **{"transforms.x.config.providers": "d", "transforms.x.value.literal": "${d:/etc:shadow}"}
    ),
    "providers of a connector": source(**{"config.providers": "d", "config.providers.d.class": "x.D"}),
    "DuckDB": one("x.JdbcSource", **{"connection.url": "jdbc:duckdb:", "query": "SELECT * FROM read_text('/etc/x')"}),
    "DuckDB of SQLAlchemy": one("SqlSource", **{"connection.url": "duckdb+duckdb_engine://", "query": "SELECT 1"}),
    "group by librdkafka's name": sink(**{"consumer.override.librdkafka.group.id": "connect-orders"}),
    "group of another connector": sink(**{"consumer.override.group.id": "connect-orders"}),
    "group of the workers": sink(**{"consumer.override.group.id": "workers"}),
    "group by a reference": sink(**{"consumer.override.group.id": "${env:GROUP}"}),
    "mirror of all": one("org.apache.kafka.connect.mirror.MirrorSourceConnector"),
    "mirror by pattern": one("java:org.apache.kafka.connect.mirror.MirrorSourceConnector", topics="a,connect-[cx].*"),
    # The cluster itself
    "config topic": source(topic="connect-configs"),
    "config topic by a router": source(
        transforms="r",
        **{
            "transforms.r.type": "RegexRouter",
            "transforms.r.regex": ".*",
            "transforms.r.replacement": "connect-configs",
        },
    ),
    "config topic read": sink(topics="eve-1,connect-configs"),
    "config topic by pattern": one("VerifiableSink", **{"topics.regex": "connect-.*"}),
    "dead letters to it": sink(**{"errors.deadletterqueue.topic.name": "connect-status"}),
}


@pytest.mark.parametrize("config", ESCAPES.values(), ids=ESCAPES)
def test_a_grant_without_a_word_allows_no_code_no_files_and_no_topic_of_the_cluster(host, config):
    assert Limits().beyond(config, host) != []


HARMLESS = {
    "connector of lines": source(),
    "routes": source(transforms="r", **{"transforms.r.type": "RegexRouter", "transforms.r.replacement": "x-$1"}),
    "object store": one("ObjectSink", topics="t", **{"object.url": "s3://bucket/folder", "object.format": "parquet"}),
    "database": one("SqlSink", topics="t", **{"connection.url": "jdbc:postgresql://db/shop", "connection.user": "me"}),
    "database by driver": one("SqlSink", **{"connection.driver": "psycopg", "connection.database": "shop"}),
    "REST": one("HttpJsonSource", topic="t", url="https://x/etc", **{"items.pointer": "/etc/items"}),
    "registry": source(**{"value.converter": "AvroConverter", "value.converter.schema.registry.url": "http://r:8081"}),
    "DDL": sink(**{"value.schema": "id bigint, at timestamp"}),
    "SQL": source(transforms="q", **{"transforms.q.type": "SqlTransform", "transforms.q.query": "SELECT a / b FROM r"}),
    "own group": sink(**{"consumer.override.group.id": "connect-eve-2"}),
    "group of nobody": sink(**{"consumer.override.group.id": "shop"}),
    "setting of a step": source(
        transforms="x", **{"transforms.x.type": "HoistField$Value", "transforms.x.y.type": "json"}
    ),
    "database without files of the client": one(
        "SqlSource", topic="t", **{"connection.url": "jdbc:mysql://h/d?allowLoadLocalInfile=false&useSSL=true"}
    ),
    "text of libpq": one("SqlSource", **{"connection.driver": "psycopg", "connection.url": "host=h sslmode=require"}),
    "query with a driver's words": one("SqlSource", query="SELECT class FROM t WHERE init = 3"),
    "login of a database": one("SqlSource", **{"connection.url": "postgresql://h/d?sslmode=require&options=-c%20a=b"}),
    "login": source(
        **{
            "producer.override.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="a" password="b=c;";'
        }
    ),
    "client": source(
        **{"producer.override.sasl.jaas.config": "org.x.PlainLoginModule required username=a password=b;"}
    ),
    "reference": source(**{"producer.override.sasl.password": "${file:/run/secrets/db:password}"}),
    "key itself": source(**{"ssl.key": "-----BEGIN PRIVATE KEY-----", "keyfile": '{"type": "service_account"}'}),
    "authorities of the system": one("SqlSource", **{"connection.url": "postgresql://h/d?sslrootcert=system"}),
    "kind and password of a store": source(
        **{"ssl.keystore.type": "PEM", "ssl.key.password": "x", "ssl.truststore.certificates": "-----BEGIN"}
    ),
    "region": one("TableSink", topics="t", **{"table.path": "s3://b/t", "table.catalog.location": "eu-west-1"}),
}


@pytest.mark.parametrize("config", HARMLESS.values(), ids=HARMLESS)
def test_a_grant_without_a_word_allows_what_harms_nobody(host, config):
    assert Limits().beyond(config, host) == []


@pytest.mark.parametrize(
    ("config", "refused"),
    [
        ({"producer.override.bootstrap.servers": "evil:9092"}, True),
        ({"producer.override.librdkafka.bootstrap.servers": "evil:9092"}, True),
        ({"consumer.override.librdkafka.metadata.broker.list": "evil:9092"}, True),
        ({"producer.override.sasl.oauthbearer.token.endpoint.url": "https://evil"}, True),
        (
            {"admin.override.bootstrap.servers": "b:1", "producer.override.sasl.jaas.config": "PlainLoginModule x;"},
            True,
        ),
        ({"producer.override.bootstrap.servers": "b:1", "producer.override.security.protocol": "ssl"}, False),
        (
            {
                "producer.override.bootstrap.servers": "b:1",
                "producer.override.sasl.jaas.config": "PlainLoginModule required username=a password=b;",
            },
            False,
        ),
    ],
)
def test_the_workers_login_is_not_sent_to_other_brokers(host, config, refused):
    assert bool(Limits().beyond(source(**config), replace(host, has_login=True))) is refused
    assert Limits().beyond(source(**config), host) == [], "the worker has no login to send"


def test_a_grant_bounds_tasks_and_slots(host):
    grant = '[[grant]]\nrole = "editor"\nusers = ["eve"]\ntasks = 4\nmemory = "512m"\ncores = 2\n'
    (limits,) = parse_roles(grant, "roles.toml").limits(Caller("eve"), None)
    own = {"kconnect.slot": "own", "kconnect.slot.memory": "512m", "kconnect.slot.cores": "1"}
    for config in ({}, {"tasks.max": "4"}, own):
        assert limits.beyond(source(**config), host) == []
    refused = {
        "tasks.max=5 is more than": {"tasks.max": "5"},
        "tasks.max=${env:N} is more than": {"tasks.max": "${env:N}"},
        "tasks.max.enforce lets": {"tasks.max.enforce": "false"},
        "kconnect.slot.memory must be given, and at most 512m": {**own, "kconnect.slot.memory": "1g"},
        "kconnect.slot.cores must be given, and at most 2": {**own, "kconnect.slot.cores": ""},
    }
    for sentence, config in refused.items():
        (said,) = limits.beyond(source(**config), host)
        assert said.startswith(sentence)


def test_classes_are_the_only_connectors_and_allow_steps_that_run_code(host):
    limits = Limits(classes=("Verifiable*", "PythonTransform"))
    assert limits.beyond(source(transforms="x", **{"transforms.x.type": "PythonTransform"}), host) == []
    assert limits.beyond(source(transforms="x", **{"transforms.x.type": "HoistField$Value"}), host) == []
    for config in (one("SqlSink", topics="t"), source(predicates="p", **{"predicates.p.type": "PythonPredicate"})):
        assert len(limits.beyond(config, host)) == 1
    assert Limits(classes=("kconnect.spark.*",)).beyond(one("SparkSink", **{"spark.format": "noop"}), host) == []
    # what it reads is asked of its folders all the same
    spark = one("SparkSource", topic="t", **{"spark.query": "SELECT * FROM text.`/etc/passwd`"})
    assert Limits(classes=("SparkSource",)).beyond(spark, host) == [
        "spark.query names /etc/passwd, a path of this machine that the grant's files do not hold"
    ]


def test_a_class_that_was_granted_brings_neither_libraries_of_clients_nor_providers_of_its_own(host):
    limits = Limits(classes=("VerifiableSource",))
    for key in ("producer.override.librdkafka.plugin.library.paths", "transforms.x.config.providers"):
        (said,) = limits.beyond(source(**{key: "x"}), host)
        assert said.startswith(key)


def test_files_hold_what_is_below_them_and_not_where_links_lead(host, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link").symlink_to("/etc")
    limits = Limits(files=(str(tmp_path / "in"), str(tmp_path / "out-*.csv")))

    def is_held(file: str) -> bool:
        return limits.beyond(one("FileStreamSource", file=str(tmp_path / file), topic="t"), host) == []

    assert is_held("in/a.txt")
    assert is_held("in/deep/a.txt")
    assert is_held("out-1.csv")
    assert is_held("in/${topic}/x")
    refused = ("in2/a.txt", "in/../a.txt", "in/link/passwd", "out-1.txt", "in/${topic}/../../x", "in-${topic}")
    assert [name for name in refused if is_held(name)] == []
    assert Limits(files=(".",)).beyond(one("FileStreamSource", file="${env:EVIL}", topic="t"), host) != []
    # a provider may give `../../etc/passwd`
    assert not is_held("in/${env:EVIL}")


def test_files_hold_each_path_of_a_list_and_what_a_database_makes_of_a_url(host):
    limits = Limits(files=("/data/eve",))
    for url in ("jdbc:sqlite:file:/data/eve/%2e%2e/x.db", "sqlite:///file:/data/eve/%2E%2e/x.db?uri=true"):
        assert len(limits.beyond(one("SqlSource", **{"connection.url": url}), host)) == 1
    assert limits.beyond(one("SqlSource", **{"connection.url": "jdbc:sqlite:file:/data/eve/x.db"}), host) == []
    assert limits.beyond(source(inputs="/data/eve/a,/data/eve/b, c"), host) == []
    for more in ("/etc/passwd", " ../x", "a/../../x"):
        assert len(limits.beyond(source(inputs=f"/data/eve/a,{more}"), host)) == 1


def test_a_file_that_connectors_of_the_grant_write_gives_no_references_unless_its_secrets_say_so(host):
    """Its content would be a setting that nobody looked at."""
    config = one("SqlSource", **{"connection.url": "${file:/data/eve/db.properties:url}"})
    assert Limits(files=("/data/other",)).beyond(config, host) == []
    assert Limits(files=("/data/eve",), secrets=("file:/data/eve/db.properties:*",)).beyond(config, host) == []
    assert Limits(files=("/data/eve",)).beyond(config, host) == [
        "connection.url asks for ${file:/data/eve/db.properties:url}, a file that the grant lets connectors write; its "
        "secrets may name it"
    ]


def test_providers_and_secrets_hold_the_references(host):
    config = source(**{"producer.override.sasl.password": "${file:/run/eve.properties:password}", "x": "${topic}"})
    for limits, is_allowed in (
        (Limits(), True),
        (Limits(providers=("file",)), True),
        (Limits(providers=("env",)), False),
        (Limits(secrets=("file:/run/eve.properties:*",)), True),
        (Limits(secrets=("file:/run/bob.properties:*", "env:*")), False),
        (Limits(secrets=("file:/run/*",)), True),
    ):
        assert (limits.beyond(config, host) == []) is is_allowed
    detour = source(x="${file:/run/eve/../orders.properties:password}")
    assert len(Limits(secrets=("file:/run/eve/*",)).beyond(detour, host)) == 1
    assert Limits(secrets=("file:/run/*",)).beyond(detour, host) == []


ROLES = """
[[grant]]
role = "editor"
users = ["eve"]
connectors = ["eve-*"]

[[grant]]
role = "editor"
users = ["eve"]
connectors = ["eve-files-*"]
files = ["/data"]

[[grant]]
role = "editor"
users = ["*"]
connectors = ["any"]
classes = ["PythonSource"]

[[grant]]
role = "admin"
users = ["ann"]
"""


def test_one_grant_of_several_must_allow_the_whole_config(host):
    roles = parse_roles(ROLES, "roles.toml")
    file, code = one("FileStreamSource", file="/data/x", topic="t"), one("PythonSource", function="a:b", topic="t")

    def may(user: str, config: dict[str, str], connector: str | None) -> bool:
        try:
            Access(Caller(user), roles, host=host).require_config(config, connector)
        except DeniedError:
            return False
        return True

    assert may("ann", code, "eve-1")
    assert may("eve", file, "eve-files-1")
    assert not may("eve", file, "eve-1")
    assert not may("eve", code, "eve-files-1")
    assert may("bob", code, "any")
    assert may("eve", code, "any")
    assert may("eve", file, None)  # a config that is only validated: some grant allows it
    assert not may("bob", file, None)


def test_the_refusal_says_who_what_and_where_it_is_granted(host):
    access = Access(Caller("eve"), parse_roles(ROLES, "roles.toml"), host=host)
    with pytest.raises(DeniedError) as raised:
        access.require_config(one("PythonSource", function="os:getcwd", topic="connect-configs"), "eve-1")
    assert str(raised.value) == (
        "User eve may not give connector eve-1 this config: connector.class=PythonSource runs code or reads local "
        "folders, and the grant's classes do not name it; and 1 more: topic names connect-configs, one of the "
        "worker's own topics (setting kconnect.rest.roles.file of the worker)"
    )
    assert raised.value.status == 403


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ('role = "operator"\nusers = ["a"]\nfiles = ["/x"]', "line 4: files limits the configs of an editor"),
        ('role = "editor"\nusers = ["a"]\ntopics = "x"', "line 4: topics must be a list of names"),
        ('role = "editor"\nusers = ["a"]\ntasks = "4"', "line 4: tasks must be a number from 1"),
        ('role = "editor"\nusers = ["a"]\nmemory = "a lot"', "line 4: memory must be a size"),
        ('role = "editor"\nusers = ["a"]\nfolders = ["x"]', "line 4: Unknown setting: folders"),
    ],
)
def test_a_limit_that_cannot_hold_is_reported_with_its_line(lines, problem):
    with pytest.raises(ConfigError, match=problem):
        parse_roles(f"[[grant]]\n{lines}\n", "roles.toml")


def test_every_built_in_that_names_a_function_a_command_or_spark_counts_as_code():
    """A plugin that comes with kconnect and takes a `function`, a command or Spark's SQL is one that runs code."""
    telling = ("python_", "singer", "kconnect.spark")
    named = {plugin.java_name for plugin in BUILTINS if any(word in plugin.target for word in telling)}
    assert named <= {*_CODE, "kconnect.builtin.python_function"}


def test_a_path_in_a_list_counts_as_one_alone_does():
    assert list(local_paths({"inputs": "a,/etc/passwd"})) == [("inputs", "/etc/passwd")]


def test_records_of_a_topic_are_for_whom_a_grant_names_it(host):
    grants = '[[grant]]\nrole = "reader"\nusers = ["bob", "ANONYMOUS"]\nrecords = ["orders-*"]\n' + ROLES
    roles = parse_roles(grants, "roles.toml")

    def refusal(user: str | None, topic: str) -> int | None:
        try:
            Access(Caller(user), roles, host=host).require_topic(topic, "GET /admin/topics/x/records")
        except DeniedError as err:
            return err.status
        return None

    assert [refusal(user, "orders-eu") for user in ("bob", None, "ann", "eve")] == [None, None, None, 403]
    assert [refusal(user, "payments") for user in ("bob", None, "ann")] == [403, 401, None]
