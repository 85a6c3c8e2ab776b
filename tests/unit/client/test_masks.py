"""Masks of secrets in configs, for commands, pages and the audit log alike."""

from __future__ import annotations

import pytest

from kconnect.client.masks import Masks, masked, unmasked
from kconnect.errors import BadRequestError, ForbiddenError, NotFoundError, UnreachableError
from kconnect.logs.redaction import HIDDEN

CONFIG = {
    "connector.class": "Db",
    "db.password": "hush",
    "pin": "1234",
    "url": "jdbc:db",
    "transforms": "sign",
    "transforms.sign.type": "Sign",
    "transforms.sign.seed": "42",
    "ssl.key.password": "${file:/run/secrets:key}",
    "token": "",
}


class Tables:
    """A worker that has two plugins; `refusal`: what it says instead."""

    def __init__(self, refusal=None):
        self.refusal = refusal
        self.asked = []

    def plugin_config(self, plugin):
        self.asked.append(plugin)
        if self.refusal is not None:
            raise self.refusal
        secret = {"Db": "pin", "Sign": "seed"}[plugin]
        return [{"name": secret, "type": "PASSWORD"}, {"name": "url", "type": "STRING"}]


def test_what_a_key_or_a_plugins_table_calls_secret_is_hidden():
    hidden = {"db.password": HIDDEN, "pin": HIDDEN, "transforms.sign.seed": HIDDEN}
    tables = Tables()
    masks = Masks(tables)
    assert masks.masked(CONFIG) == masks.masked(CONFIG) == {**CONFIG, **hidden}
    assert tables.asked == ["Db", "Sign"], "each is asked for once"
    assert Masks(tables, reveal=True).masked(CONFIG) == CONFIG


@pytest.mark.parametrize("refusal", [NotFoundError("none"), BadRequestError("no class"), ForbiddenError("not you")])
def test_names_alone_decide_where_a_table_is_not_to_be_had(refusal):
    assert Masks(Tables(refusal)).masked(CONFIG) == {**CONFIG, "db.password": HIDDEN}


def test_nothing_is_shown_while_nobody_answers():
    with pytest.raises(UnreachableError):
        Masks(Tables(UnreachableError("frozen"))).masked(CONFIG)


URLS = {
    "connection.url": "postgresql://me:hush@db/shop",
    "jdbc": "jdbc:postgresql://db/shop?user=me&password=hush",
    "url": "https://h/x?page=1&token=hush",
}
SHOWN = {
    "connection.url": f"postgresql://me:{HIDDEN}@db/shop",
    "jdbc": f"jdbc:postgresql://db/shop?user=me&password={HIDDEN}",
    "url": f"https://h/x?page=1&token={HIDDEN}",
}


def test_secrets_in_urls_are_hidden_and_stay_where_the_rest_comes_back_as_it_was():
    plain = {
        "a": "postgresql://me:${env:PW}@db/shop",
        "b": "https://h/x?token=${file:/t:t}",
        "c": "https://h:1/x?page=2",
    }
    assert masked({**URLS, **plain}, ()) == {**SHOWN, **plain}
    assert masked(SHOWN, ()) == SHOWN
    assert unmasked({**SHOWN, **plain}, URLS, "shop") == {**URLS, **plain}
    with pytest.raises(BadRequestError, match=r"connection\.url of shop has \[hidden\] in a URL"):
        unmasked({"connection.url": f"postgresql://me:{HIDDEN}@elsewhere/shop"}, URLS, "shop")
    words = {"text": f"says {HIDDEN}", "page": f"https://h/x?page={HIDDEN}"}
    assert unmasked(words, {}, "shop") == words


def test_only_a_whole_reference_is_shown():
    config = {"a.password": "${env:A}", "b.password": " ${env:B} ", "c.password": "${env:C}hush", "d.password": "${x"}
    assert masked(config, ()) == {**config, "c.password": HIDDEN, "d.password": HIDDEN}


def test_a_mask_stands_for_the_secret_that_is_there():
    assert unmasked({"pin": HIDDEN, "url": "new"}, {"pin": "1234"}, "orders") == {"pin": "1234", "url": "new"}
    for live in ({}, {"pin": ""}):
        with pytest.raises(BadRequestError, match=r"^a\.json: pin of orders is .* does not exist$") as refused:
            unmasked({"pin": HIDDEN}, live, "orders", "a.json")
        assert refused.value.hint is not None
        assert "${file:" in refused.value.hint
