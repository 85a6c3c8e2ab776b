"""The move of a running connector as the CLI makes changes: described first, then made, with each step reported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kconnect.admin.cluster.rest_changes import offset_table
from kconnect.model import ConnectorOffset

if TYPE_CHECKING:
    from kconnect.client import ConnectClient
    from kconnect_cli.admin.offset_changes import OffsetChanges


@dataclass(frozen=True, slots=True)
class MoveChange:
    """A `PreparedChange`; `kconnect.client.offset_move` does it. It says what it does as it does it."""

    client: ConnectClient
    changes: OffsetChanges
    name: str
    wanted: Callable[[], Sequence[ConnectorOffset]]
    say: Callable[[str], None]
    action: str = "move"

    @property
    def is_empty(self) -> bool:
        return False

    @property
    def needs_consent(self) -> bool:
        return True

    def description(self) -> Sequence[str]:
        """Old and new offsets as they are now; what its tasks commit while they stop comes on top."""
        return (f"Move {self.name}", offset_table(self.client.connector_offsets(self.name), self.wanted()))

    def check(self) -> Sequence[str]:
        return ()

    def make(self) -> Sequence[str]:
        """Errors: ConnectError of the step that failed; offsets and state are then what they were before."""
        from kconnect.client.offset_move import OffsetMove

        OffsetMove(self.client, self.name, self.wanted, self._alter, self.say).make()
        return ()

    def _alter(self, wanted: Sequence[ConnectorOffset]) -> None:
        for line in self.changes.alter(self.name, wanted, self.action).make():
            self.say(line)
