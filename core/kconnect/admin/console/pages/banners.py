"""`/ui/banners`: what every page says at its top, kept current on those that are not read again by themselves.

While the worker does not answer this request, the page that is open says that.
"""

from __future__ import annotations

from typing import Final

from kconnect.admin.console.answers import banners
from kconnect.admin.console.page_request import Fragment, PageRequest, Reply, Route, Unchanged


def show(request: PageRequest) -> Reply:
    """The banners, if they are others than those of the page."""
    values = banners(request)
    return Unchanged() if request.query.get("v") == values["reported"] else Fragment("banners.html", values)


ROUTES: Final = (Route("/banners", {"GET": show}),)
