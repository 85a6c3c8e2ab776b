"""A browser without a window: pages of a worker's console, and of `connect ui`, with cookies."""

from __future__ import annotations

import base64
import re
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from html import unescape
from http.cookiejar import CookieJar

from kconnect.client.trust import trusting
from kit.connect_ui import connect_ui
from kit.pace import ample_s


class Browser:
    """Asks for pages as a browser does, with cookies."""

    def __init__(self, url, user=None, ca=None):
        self.url = url
        handlers = [urllib.request.HTTPCookieProcessor(CookieJar())]
        if ca is not None:
            handlers.append(urllib.request.HTTPSHandler(context=trusting(ca)))
        self._opener = urllib.request.build_opener(*handlers)
        login = {} if user is None else {"Authorization": "Basic " + base64.b64encode(user.encode()).decode()}
        self._headers = login

    def ask(self, path, form=None, **headers):
        """Status and page."""
        data = None if form is None else urllib.parse.urlencode(form).encode()
        sent = {**self._headers, **headers}
        if data is not None:
            sent.setdefault("Sec-Fetch-Site", "same-origin")
        request = urllib.request.Request(self.url + path, data, sent)
        try:
            with self._opener.open(request, timeout=ample_s(30)) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as err:
            return err.code, err.read().decode()


@contextmanager
def opened_ui(home, *arguments, **more):
    """A browser that has opened the address which `connect ui` printed."""
    with connect_ui(home, *arguments, **more) as address:
        url, token = re.fullmatch(r"(http://[^/]+)(/ui\?token=.+)", address).groups()
        browser = Browser(url)
        assert browser.ask("/ui")[0] == 401
        assert browser.ask(token)[0] == 200
        yield browser


def agreed(page):
    """The fields of the form that is at the end of a preview."""
    form = page[page.rindex("<form") :]
    return {key: unescape(text) for key, text in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form)}
