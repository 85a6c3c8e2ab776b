"""Which page of a JSON service comes next, and what is asked for it: pure decisions."""

from __future__ import annotations

from typing import Any

import pytest

from kconnect.api import DataError
from kconnect.builtin.connectors.http_reading import Page, at_base, filled


@pytest.mark.parametrize(
    ("url", "base", "wanted"),
    [
        ("https://a.org/x?p=2", "https://a.org/x", "https://a.org/x?p=2"),
        ("http://a.org/x?p=2", "https://a.org/x", "https://a.org/x?p=2"),
        ("http://a.org/x?p=2", "https://a.org:8443/x", "https://a.org:8443/x?p=2"),
        ("http://a.org:8443/x", "https://a.org:8443/x", "https://a.org:8443/x"),
        ("http://A.org/x", "https://a.org/x", "https://a.org/x"),
        ("http://a.org:9999/x", "https://a.org/x", None),
        ("https://b.org/x", "https://a.org/x", None),
        ("https://a.org.b.org/x", "https://a.org/x", None),
        ("https://a.org@b.org/x", "https://a.org/x", None),
        ("http://me@a.org/x", "https://a.org/x", None),
    ],
)
def test_a_page_is_asked_for_at_the_base_alone(url: str, base: str, wanted: str | None) -> None:
    assert at_base(url, base) == wanted


@pytest.mark.parametrize(
    ("template", "values", "wanted"),
    [
        ('{"a": ${cursor}}', {"cursor": 'x"y'}, '{"a": "x\\"y"}'),
        ('{"a": ${cursor}}', {"cursor": 5}, '{"a": 5}'),
        ('{"a": ${cursor}}', {}, '{"a": null}'),
        ('{"a": "${cursor}"}', {}, '{"a": ""}'),
        ('{"a": "> ${cursor} <"}', {"cursor": 'x"y'}, '{"a": "> x\\"y <"}'),
        ('{"\\\\": ${offset}, "b": "\\"${page}"}', {"offset": 1, "page": 2}, '{"\\\\": 1, "b": "\\"2"}'),
        ("${other}", {}, "${other}"),
    ],
)
def test_a_body_stays_json_whatever_its_values(template: str, values: dict[str, Any], wanted: str) -> None:
    assert filled(template, values) == wanted


def test_a_form_has_its_values_escaped() -> None:
    assert filled("since=${cursor}&p=${page}", {"cursor": "a&b c"}, is_form=True) == "since=a%26b+c&p="


def test_a_page_is_kept_as_a_text() -> None:
    for page in (Page("https://a.org/x?p=2"), Page("https://a.org/x", {"page": 3, "count": 40})):
        assert Page.of(page.text()) == page
    for text in ("{", '{"page": 1}'):
        with pytest.raises(DataError, match="is not a page"):
            Page.of(text)
