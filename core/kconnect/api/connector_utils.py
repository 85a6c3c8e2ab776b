"""Help for connectors that share work among tasks. Source: o.a.k.connect.util.ConnectorUtils (Kafka 4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")


class ConnectorUtils:
    """Help for `task_configs`."""

    @staticmethod
    def group_partitions(elements: Sequence[T], num_groups: int) -> list[list[T]]:
        """Splits the elements, in order, into that many groups; the first ones may have one more than the others.

        For the partitions of a source: `group_partitions(tables, min(len(tables), max_tasks))`. With fewer elements
        than groups the last groups are empty. Errors: ValueError for fewer than one group.
        """
        if num_groups <= 0:
            raise ValueError("Number of groups must be positive.")
        size, left = divmod(len(elements), num_groups)
        ends = [group * size + min(group, left) for group in range(num_groups + 1)]
        return [list(elements[start:end]) for start, end in pairwise(ends)]
