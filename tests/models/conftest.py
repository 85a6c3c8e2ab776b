"""Tests of models begin with the log levels of a fresh process, whatever ran in this one before them."""

from __future__ import annotations

import logging

import pytest


@pytest.fixture(autouse=True)
def _levels_of_a_fresh_process() -> None:
    if logging.root.level != logging.WARNING:
        logging.root.setLevel(logging.WARNING)
    for name, logger in logging.root.manager.loggerDict.items():
        if name.startswith("kconnect") and isinstance(logger, logging.Logger) and logger.level != logging.NOTSET:
            logger.setLevel(logging.NOTSET)
