"""Configs of whoever may edit some connectors alone, for tests of what a grant allows."""

from __future__ import annotations


def source(**more: str) -> dict[str, str]:
    return {"name": "eve-1", "connector.class": "VerifiableSource", "topic": "eve-1", "throughput": "1", **more}


def sink(**more: str) -> dict[str, str]:
    return {"name": "eve-2", "connector.class": "VerifiableSink", "topics": "eve-1", **more}


def one(cls: str, **more: str) -> dict[str, str]:
    return {"name": "eve-3", "connector.class": cls, **more}
