"""Ages in sentences."""

from __future__ import annotations

import pytest

from kit.ages import Age


@pytest.mark.parametrize("text", ["It waits (6 s).", "It waits (70 s).", "It waits (x s).", "It waited (7 s)."])
def test_another_age_or_another_sentence_is_no_match(text: str) -> None:
    age = Age(7)
    age.assert_reported("It waits (7 s).", "It waits (AGE).")
    with pytest.raises(AssertionError, match="It wait"):
        age.assert_reported(text, "It waits (AGE).")
