"""Roles on real sockets: users of basic auth, certificates, extensions, and what the worker refuses to start with."""

from __future__ import annotations

import base64
import http.client
from contextlib import closing
from dataclasses import replace
from functools import partial
from urllib.parse import urlsplit

import pytest

from kconnect.api.rest_extension import USER, ConnectRestExtension, RestResponse
from kconnect.client import ClientAccess, ConnectClient
from kconnect.errors import BadRequestError, ConfigError, ConnectError, ForbiddenError
from kconnect.logs.redaction import HIDDEN
from kconnect.runtime.config import DistributedConfig, StandaloneConfig
from kconnect.runtime.rest import RestOptions, RestServer
from kit.certificates import Authority
from kit.memory_herder import MemoryHerder, file_source
from kit.pace import ample_s

EXTENSION = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"
WORKER = {
    "bootstrap.servers": "localhost:1",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "offset.storage.file.filename": "offsets",
    "listeners": "http://127.0.0.1:0",
}
ROLES = """
[[grant]]
role = "admin"
users = ["ann"]
[[grant]]
role = "operator"
users = ["bob", "deploy"]
connectors = ["orders-*"]
"""


def settings_of(tmp_path, roles=ROLES, **more) -> dict[str, str]:
    (tmp_path / "roles.toml").write_text(roles)
    return {**WORKER, "kconnect.rest.roles.file": str(tmp_path / "roles.toml"), **more}


def with_login(tmp_path) -> dict[str, str]:
    (tmp_path / "users").write_text("ann=s3cret\nbob=s3cret\n")
    (tmp_path / "jaas").write_text(f'KafkaConnect {{ {MODULE} required file="{tmp_path / "users"}"; }};')
    return {"rest.extension.classes": EXTENSION, "kconnect.jaas.file": str(tmp_path / "jaas")}


def serving(settings) -> RestServer:
    config = StandaloneConfig.parse(settings, lambda name: name)
    herder = MemoryHerder()
    for name in ("orders-eu", "stock"):
        herder.put_connector(name, file_source(), replace=False)
    options = RestOptions.parse(config, {})
    return RestServer(herder, config.listeners, None, options)


def test_users_of_basic_auth_have_their_roles_and_the_refusal_says_what_is_missing(tmp_path):
    with serving(settings_of(tmp_path, **with_login(tmp_path))) as server:
        url = server.urls[0]
        with ConnectClient(url, access=ClientAccess(user="bob", password="s3cret")) as bob:
            assert bob.connectors() == ["orders-eu"]
            bob.pause_connector("orders-eu")
            pause, delete = partial(bob.pause_connector, "stock"), partial(bob.delete_connector, "orders-eu")
            for refused in (pause, delete, bob.loggers):
                with pytest.raises(ForbiddenError, match="User bob lacks the role"):
                    refused()
        with ConnectClient(url, access=ClientAccess(user="ann", password="s3cret")) as ann:
            assert ann.connectors() == ["orders-eu", "stock"]
            ann.delete_connector("stock")
            assert isinstance(ann.loggers(), dict)


SECRETS = """
[[grant]]
role = "admin"
users = ["ann"]
[[grant]]
role = "operator"
users = ["bob"]
[[grant]]
role = "editor"
users = ["bob"]
connectors = ["bobs-*"]
files = ["/in.txt"]
"""


def test_who_may_not_edit_a_connector_sees_no_secret_of_it_and_cannot_copy_its_mask(tmp_path):
    secret = {
        **file_source(),
        "header.Authorization": "Bearer s3cret",
        "x.password": "s3cret",
        "y.password": "${env:Y}",
    }
    with serving(settings_of(tmp_path, SECRETS, **with_login(tmp_path))) as server:
        url = server.urls[0]
        with (
            ConnectClient(url, access=ClientAccess(user="ann", password="s3cret")) as ann,
            ConnectClient(url, access=ClientAccess(user="bob", password="s3cret")) as bob,
        ):
            ann.put_connector_config("shop", {**file_source(), **secret})
            plain, tag = ann.tagged_config("shop")
            seen, same = bob.tagged_config("shop")
            assert (plain["x.password"], tag) == ("s3cret", same)
            hidden = {"header.Authorization": HIDDEN, "x.password": HIDDEN, "y.password": "${env:Y}"}
            assert {key: seen[key] for key in hidden} == hidden
            assert dict(bob.connector("shop").config) == dict(bob.connector_infos()["shop"].config) == seen
            assert "s3cret" not in ask(url, "/connectors/shop/tasks", "bob")
            with pytest.raises(BadRequestError, match="which stands for a secret that does not exist"):
                bob.put_connector_config("bobs-shop", {**seen, "name": "bobs-shop"})


def ask(url, path, user):
    login = base64.b64encode(f"{user}:s3cret".encode()).decode()
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=ample_s(10))) as connection:
        connection.request("GET", path, headers={"Authorization": f"Basic {login}"})
        answer = connection.getresponse()
        assert answer.status == 200
        return answer.read().decode()


def test_a_certificate_has_the_roles_of_the_user_its_subject_stands_for(tmp_path):
    authority = Authority()
    ca = str(authority.file(tmp_path / "ca.pem"))
    tls = {
        "ssl.keystore.location": str(authority.sign("worker").pem_file(tmp_path / "w.pem")),
        "ssl.truststore.location": ca,
        "ssl.client.auth": "requested",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?)-robot$/$1/L",
    }
    settings = settings_of(tmp_path, **{f"listeners.https.{key}": value for key, value in tls.items()})
    certs = {name: str(authority.sign(name).pem_file(tmp_path / f"{name}.pem")) for name in ("Deploy-robot", "eve")}
    with serving({**settings, "listeners": "https://127.0.0.1:0"}) as server:
        url = server.urls[0]
        with ConnectClient(url, access=ClientAccess(ca=ca, cert=certs["Deploy-robot"])) as deploy:
            assert deploy.connectors() == ["orders-eu"]
            deploy.stop_connector("orders-eu")
            with pytest.raises(ForbiddenError, match="User deploy lacks the role editor for connector orders-eu"):
                deploy.put_connector_config("orders-eu", file_source())
        for access in (ClientAccess(ca=ca, cert=certs["eve"]), ClientAccess(ca=ca)):  # no rule applies, none shown
            with ConnectClient(url, access=access) as client, pytest.raises(ConnectError, match="refuses a caller"):
                client.connectors()


class Tokens(ConnectRestExtension):
    """Knows callers by a header, and adds a route."""

    def register(self, context):
        def around(app):
            async def named(scope, receive, send):
                token = dict(scope.get("headers", ())).get(b"x-token")
                await app({**scope, USER: token.decode()} if token else scope, receive, send)

            return named

        context.add_middleware(around)
        context.add_route("/who", lambda request: RestResponse({"user": request.user}))
        context.add_route("/repair/{connector}", lambda request: RestResponse({}), methods=("POST",), role="operator")
        context.add_route("/burn", lambda request: RestResponse({}), methods=("POST",))


def test_an_extension_may_say_who_calls_and_its_routes_have_roles_too(tmp_path):
    config = StandaloneConfig.parse(settings_of(tmp_path, **with_login(tmp_path)), lambda name: name)
    options = replace(RestOptions.parse(config, {}), login=None, extensions=[Tokens()])
    with RestServer(MemoryHerder(), config.listeners, None, options) as server:

        def ask(method, path, token=None):
            connection = http.client.HTTPConnection(urlsplit(server.urls[0]).netloc, timeout=ample_s(5))
            connection.request(method, path, headers={"X-Token": token} if token else {})
            response = connection.getresponse()
            body = response.read()
            connection.close()
            return response.status, body

        assert ask("GET", "/who", "bob") == (200, b'{"user":"bob"}')
        assert ask("GET", "/who")[0] == 401
        assert ask("GET", "/connectors")[0] == 401
        assert ask("GET", "/connectors", "eve")[0] == 403
        assert ask("POST", "/repair/orders-1", "bob")[0] == 200
        assert ask("POST", "/repair/stock", "bob")[0] == 403
        assert ask("POST", "/burn", "bob")[0] == 403
        assert ask("POST", "/burn", "ann")[0] == 200


@pytest.mark.parametrize(
    ("more", "roles", "message"),
    [
        ({}, ROLES, "nobody could say who he is"),
        ({"kconnect.rest.roles.file": "/none"}, ROLES, "cannot be read"),
        ({"login": "yes"}, "[[grant]]\nrole = 7", r"roles\.toml, line 2: Unknown role: 7"),
        ({"login": "yes", "ssl.principal.mapping.rules": "CN"}, ROLES, r"ssl\.principal\.mapping\.rules"),
    ],
)
def test_roles_that_cannot_be_kept_are_refused_at_the_start(tmp_path, more, roles, message):
    login = with_login(tmp_path) if more.pop("login", None) else {}
    config = StandaloneConfig.parse(settings_of(tmp_path, roles) | login | more, lambda name: name)
    with pytest.raises(ConfigError, match=message):
        RestOptions.parse(config, {})


def test_a_cluster_whose_workers_do_not_sign_their_requests_has_no_roles(tmp_path):
    topics = {f"{what}.storage.topic": what for what in ("config", "offset", "status")}
    props = settings_of(tmp_path, **with_login(tmp_path)) | topics | {"group.id": "g", "connect.protocol": "compatible"}
    with pytest.raises(ConfigError, match="anybody could send these without a role"):
        RestOptions.parse(DistributedConfig.parse(props, lambda name: name), {})
