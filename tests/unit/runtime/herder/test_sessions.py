"""Session keys and signatures of requests between workers."""

from __future__ import annotations

import base64
import json

import pytest

from kconnect.errors import BadRequestError, ForbiddenError, NotReadyError
from kconnect.runtime.config.distributed_keys import MAC_NAMES
from kconnect.runtime.herder.decisions.request_signatures import (
    KeyForm,
    RequestSignature,
    check_signature,
    key_form,
    new_key,
    signature_headers,
)
from kconnect.runtime.storage.session_key import SessionKey
from kit.places import GOLDEN

RECORDED = json.loads((GOLDEN / "protocol/connect-protocol.json").read_text())
SIGNED = [case for case in RECORDED if case["kind"] == "request signature"]
KEY = SessionKey(bytes(range(32)), "HmacSHA256", 1)
BODY = b'[{"a":"b"}]'


def _signature(key=KEY, body=BODY, algorithm="HmacSHA256", **changes):
    headers = {name.lower(): value for name, value in signature_headers(key, body, algorithm).items()}
    return RequestSignature.of({**headers, **changes}, body)


@pytest.mark.parametrize("case", SIGNED, ids=lambda case: f"{case['algorithm']}-{len(case['body'])}")
def test_signatures_are_those_of_java(case):
    key = SessionKey(base64.b64decode(case["key_b64"]), "HmacSHA256", 0)
    assert signature_headers(key, case["body"].encode(), case["algorithm"]) == {
        "X-Connect-Authorization": case["signature_b64"],
        "X-Connect-Request-Signature-Algorithm": case["algorithm"],
    }


def test_there_are_signatures_of_java_to_compare_with():
    assert {case["algorithm"] for case in SIGNED} == {"HmacSHA1", "HmacSHA256", "HmacSHA512"}


@pytest.mark.parametrize("algorithm", MAC_NAMES)
def test_what_is_signed_with_any_algorithm_is_accepted_where_it_is_permitted(algorithm):
    key = new_key(key_form(algorithm, None), 5)
    check_signature(_signature(key, algorithm=algorithm), key, [algorithm])


def test_one_byte_more_or_another_key_is_refused():
    headers = {name.lower(): value for name, value in signature_headers(KEY, BODY, "HmacSHA256").items()}
    other = SessionKey(bytes(32), "HmacSHA256", 1)
    for body, key in ((BODY + b" ", KEY), (BODY, other)):
        with pytest.raises(ForbiddenError, match="Internal request contained invalid signature"):
            check_signature(RequestSignature.of(headers, body), key, ["HmacSHA256"])


def test_the_key_before_the_present_one_is_refused_however_young():
    rotated = new_key(KeyForm(), KEY.created_ms + 1)
    with pytest.raises(ForbiddenError):
        check_signature(_signature(KEY), rotated, ["HmacSHA256"])


def test_a_key_from_the_future_is_as_good_as_any():
    """Clocks of workers may differ: who signs and who checks look at no clock, as in Java."""
    key = new_key(KeyForm(), 2**50)
    check_signature(_signature(key), key, ["HmacSHA256"])


@pytest.mark.parametrize("missing", ["x-connect-authorization", "x-connect-request-signature-algorithm"])
def test_a_request_without_one_of_the_two_headers_is_unsigned(missing):
    headers = {name.lower(): value for name, value in signature_headers(KEY, BODY, "HmacSHA256").items()}
    del headers[missing]
    assert RequestSignature.of(headers, BODY) is None
    with pytest.raises(BadRequestError, match="missing required signature"):
        check_signature(None, KEY, ["HmacSHA256"])


def test_an_algorithm_that_is_not_permitted_is_reported_with_those_that_are():
    with pytest.raises(BadRequestError, match=r"'HmacSHA1' .* configured to use: \[HmacSHA256, HmacSHA512\]\."):
        check_signature(_signature(algorithm="HmacSHA1"), KEY, ["HmacSHA256", "HmacSHA512"])


def test_permitted_algorithms_are_compared_as_they_are_written():
    """Java finds `hmacsha256`, and then does not find it among the permitted ones."""
    signature = _signature(**{"x-connect-request-signature-algorithm": "hmacsha256"})
    with pytest.raises(BadRequestError, match="'hmacsha256'"):
        check_signature(signature, KEY, ["HmacSHA256"])


def test_without_a_key_nothing_can_be_checked_yet():
    with pytest.raises(NotReadyError, match="has not been able to read a session key"):
        check_signature(_signature(), None, ["HmacSHA256"])


@pytest.mark.parametrize(
    ("text", "said"),
    [("***", "Illegal base64 character 2a"), ("AA AA", "Illegal base64 character 20"), ("A", "is not base64")],
)
def test_a_signature_that_is_no_base64_is_a_bad_request(text, said):
    with pytest.raises(BadRequestError, match=said):
        _signature(**{"x-connect-authorization": text})


def test_base64_without_its_padding_is_read_as_java_reads_it():
    encoded = signature_headers(KEY, BODY, "HmacSHA256")["X-Connect-Authorization"].rstrip("=")
    check_signature(_signature(**{"x-connect-authorization": encoded}), KEY, ["HmacSHA256"])


@pytest.mark.parametrize(
    ("algorithm", "bits", "size_bytes"),
    [
        ("HmacSHA256", None, 32),
        ("HmacSHA512", None, 64),
        ("HmacSHA1", None, 64),
        ("HmacMD5", None, 64),
        ("HmacSHA3-224", None, 28),
        ("HmacSHA256", 512, 64),
        ("HmacSHA256", 41, 6),
    ],
)
def test_keys_have_the_size_that_javas_have(algorithm, bits, size_bytes):
    key = new_key(key_form(algorithm, bits), 7)
    assert (len(key.key), key.algorithm, key.created_ms) == (size_bytes, algorithm, 7)


def test_every_algorithm_has_a_size():
    assert all(key_form(algorithm, None).size_bytes >= 16 for algorithm in MAC_NAMES)


def test_two_keys_are_never_the_same():
    assert new_key(KeyForm(), 0) != new_key(KeyForm(), 0)


def test_neither_keys_nor_signatures_are_shown():
    signature = _signature()
    shown = repr(KEY) + repr(signature)
    assert str(KEY.key) not in shown
    assert str(signature.signature) not in shown
