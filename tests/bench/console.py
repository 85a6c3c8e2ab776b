"""The web console under load: a thousand connectors, twenty browsers that poll, and how soon a browser shows them."""

from __future__ import annotations

import http.client
import re
import threading
import time
from urllib.parse import urlsplit

import psutil

from bench.ground import START_S, Ground, Metrics, file_source, running
from bench.waiting import all_run
from kit.browser import TestBrowser

__all__ = ["console_1000"]

_CONNECTORS, _BROWSERS = 1_000, 20
# As the page polls
_EVERY_S = 2.0
_SETTLE_S, _MEASURED_S = 15.0, 30.0
_PAINTS = 5
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"


def console_1000(side: str, ground: Ground) -> Metrics:
    """CPU of the worker's process while nobody looks, and while twenty do; bar: 10 % of a core. Then first paint.

    The connectors are idle sources. Each of the twenty has the overview open and polls it every two seconds, as the
    page does; what they cost is the difference.
    """
    name = ground.next_name(side, "console")
    folder = ground.folder / f"{name}-files"
    folder.mkdir()
    connectors = []
    for number in range(_CONNECTORS):
        file = folder / f"{number}.txt"
        file.write_text("")
        connectors.append(file_source(f"{name}-{number}", file))
    with running(side, ground, name, *connectors) as (worker, began):
        while not all_run(worker.url, _CONNECTORS):
            if not worker.is_alive() or time.monotonic() - began > START_S * 5:
                raise RuntimeError(f"{_CONNECTORS} connectors were not RUNNING in time")
            time.sleep(1.0)
        time.sleep(_SETTLE_S)
        process = psutil.Process(worker.pid)
        alone = _cpu_percent(process)
        stop = threading.Event()
        answers: list[int] = []
        looking = [threading.Thread(target=_look, args=(worker.url, stop, answers)) for _ in range(_BROWSERS)]
        for thread in looking:
            thread.start()
        time.sleep(_EVERY_S * 2)
        watched = _cpu_percent(process)
        stop.set()
        for thread in looking:
            thread.join()
        if len(answers) < _BROWSERS * _MEASURED_S / _EVERY_S / 2:
            raise RuntimeError(f"the console answered {len(answers)} polls only")
        return {
            "alone_cpu_percent": alone,
            "watched_cpu_percent": watched,
            "console_cpu_percent": watched - alone,
            "first_paint_ms": _first_paint_ms(f"{worker.url}/ui"),
        }


def _cpu_percent(process: psutil.Process) -> float:
    """Of one core, of the worker's own process: slots do not serve pages."""
    before, at = process.cpu_times(), time.monotonic()
    time.sleep(_MEASURED_S)
    after = process.cpu_times()
    used_s = after.user + after.system - before.user - before.system
    return 100 * used_s / (time.monotonic() - at)


def _look(url: str, stop: threading.Event, answers: list[int]) -> None:
    """One browser: the page, then what its own attributes say to poll."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
    headers = {"hx-request": "true", "sec-fetch-site": "same-origin"}
    target = _poll_target(_body(connection, "/ui", {}))
    while not stop.wait(_EVERY_S):
        body = _body(connection, target, headers)
        answers.append(len(body))
        target = _poll_target(body) or target
    connection.close()


def _body(connection: http.client.HTTPConnection, target: str, headers: dict[str, str]) -> str:
    connection.request("GET", target, headers=headers)
    answer = connection.getresponse()
    body = answer.read().decode()
    if answer.status not in (200, 204):
        raise RuntimeError(f"GET {target}: {answer.status}")
    return body


def _poll_target(html: str) -> str:
    found = re.search(r'hx-get="(/ui/rows\?[^"]+)"', html)
    return "" if found is None else found[1].replace("&amp;", "&")


def _first_paint_ms(url: str) -> float:
    """Of the page of a thousand rows, in Chromium: the median of some, each with an empty cache."""
    taken = []
    with TestBrowser() as browser:
        for _ in range(_PAINTS):
            with browser.page(url) as page:
                page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length")
                taken.append(float(page.evaluate(_PAINT)))
                if page.locator("#rows tr").count() != _CONNECTORS:
                    raise RuntimeError("the page does not show every connector")
    return sorted(taken)[len(taken) // 2]
