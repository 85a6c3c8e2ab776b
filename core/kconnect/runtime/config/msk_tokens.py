"""Tokens of Amazon MSK: a request of AWS that is signed and not sent, with which a client logs in by OAUTHBEARER.

Needs botocore, the extra `msk`. Source: aws-msk-iam-auth (IAMLoginModule), aws-msk-iam-sasl-signer.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Final

from kconnect.errors import ConfigError, ConnectError
from kconnect.runtime.config.tokens import Tokens

_LIFE_S: Final = 900
_SERVICE: Final = "kafka-cluster"
_SESSION: Final = "MSKSASLDefaultSession"
# b-1.orders.abc123.c2.kafka.eu-central-1.amazonaws.com, boot-abc.c1.kafka-serverless.us-east-1.amazonaws.com
_REGION_OF_HOST: Final = re.compile(r"\.kafka(?:-serverless)?\.([a-z]{2}(?:-[a-z]+)+-\d)\.")
_OPTIONS: Final = frozenset(
    {"awsProfileName", "awsRoleArn", "awsRoleSessionName", "awsStsRegion", "awsDebugCreds", "awsMaxRetries"}
)


def msk_tokens(options: Mapping[str, str], servers: str) -> Tokens:
    """Tokens by the options of IAMLoginModule, for the region of the brokers.

    Errors: ConfigError for an option that is not supported, a region that nobody says, a package that is missing.
    """
    if unknown := sorted(options.keys() - _OPTIONS):
        raise ConfigError(
            f"sasl.jaas.config has the option {unknown[0]}, which is not supported here.",
            hint=f"Supported are {', '.join(sorted(_OPTIONS))}.",
        )
    if find_spec("botocore") is None:
        raise ConfigError("sasl.mechanism=AWS_MSK_IAM needs the package botocore", hint="pip install 'kconnect[msk]'")
    found = _REGION_OF_HOST.search(servers)
    region = found[1] if found else os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region:
        raise ConfigError(
            "sasl.mechanism=AWS_MSK_IAM needs the region of the brokers, which bootstrap.servers does not name.",
            hint="Set AWS_REGION in the environment of the worker.",
        )
    return Tokens(lambda: (signed_token(region, options), float(_LIFE_S)))


def signed_token(region: str, options: Mapping[str, str]) -> str:
    """Errors: ConnectError where there are no credentials, or a role is refused."""
    from botocore.auth import SigV4QueryAuth
    from botocore.awsrequest import AWSRequest
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        credentials = _credentials(region, options)
        request = AWSRequest("GET", f"https://kafka.{region}.amazonaws.com/?Action={_SERVICE}%3AConnect")
        SigV4QueryAuth(credentials, _SERVICE, region, expires=_LIFE_S).add_auth(request)
    except (BotoCoreError, ClientError) as err:
        raise ConnectError(f"A token for Amazon MSK cannot be signed: {err}") from err
    return base64.urlsafe_b64encode(f"{request.url}&User-Agent=kconnect".encode()).rstrip(b"=").decode()


def _credentials(region: str, options: Mapping[str, str]) -> Any:  # botocore has no types
    from botocore.credentials import Credentials
    from botocore.session import Session

    session = Session(profile=options.get("awsProfileName"))
    found = session.get_credentials()
    if found is None:
        raise ConnectError(
            "A token for Amazon MSK cannot be signed: no AWS credentials were found.",
            hint="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, give the machine a role, or name awsProfileName.",
        )
    if role := options.get("awsRoleArn"):
        sts = session.create_client("sts", region_name=options.get("awsStsRegion") or region)
        name = options.get("awsRoleSessionName") or _SESSION
        assumed = sts.assume_role(RoleArn=role, RoleSessionName=name)["Credentials"]
        return Credentials(assumed["AccessKeyId"], assumed["SecretAccessKey"], assumed["SessionToken"])
    return found.get_frozen_credentials()
