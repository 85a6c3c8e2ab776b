"""Numbers with their nouns, as all messages say them: for those of plugins too."""

from __future__ import annotations

from kconnect.logs.wording import pluralize

__all__ = ["pluralize"]
