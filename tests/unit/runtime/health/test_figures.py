"""What tasks move: of several together."""

from __future__ import annotations

from kconnect.runtime.health.figures import Figures, summed


def test_figures_add_up_and_what_nobody_tells_stays_unknown():
    assert summed([Figures(5.0, 10, 1), Figures(None, 20, None, 7), Figures()]) == Figures(5.0, 30, 1, 7)
    assert summed([]) == Figures()
