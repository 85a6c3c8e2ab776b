"""Java's plugins beside Java Connect, all of them: prints the table of docs/java-plugins.md, and each difference.

    make java-parity [PARITY="transforms camel"]

`--write` puts the table into the page. Databases come from Debian's and PyPI's packages, plugins from Maven.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

from kconnect.java.devbroker import DevBroker
from kit.parity.cases import CASES, Case
from kit.parity.table import Row, table_text, write_table
from kit.places import ROOT
from kit.ports import free_port

_PAGE = ROOT / "docs" / "java-plugins.md"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", help=f"Of: {', '.join(CASES)}.")
    parser.add_argument("--write", action="store_true", help="Put the table into docs/java-plugins.md.")
    chosen = parser.parse_args(arguments)
    rows: list[Row] = []
    with (
        tempfile.TemporaryDirectory(prefix="java-parity-") as folder,
        DevBroker(free_port(), Path(folder) / "broker") as broker,
    ):
        for name in chosen.cases or CASES:
            found = _rows(CASES[name], Path(folder) / name, broker.bootstrap)
            rows += found
            for row in found:
                _tell("\n".join([row.line, *(f"  {one}" for one in row.differences)]))
    _tell(table_text([row.line for row in rows]))
    if chosen.write:
        write_table(_PAGE, rows)
    return 0


def _rows(case: Case, folder: Path, bootstrap: str) -> list[Row]:
    """What a case gives; a case that breaks says so in its row, and the others run on."""
    folder.mkdir(parents=True)
    try:
        return case(folder, bootstrap)
    except Exception as err:  # the top of a case
        _tell(traceback.format_exc())
        return [Row(folder.name, "", f"broke: {str(err).splitlines()[0][:200]}")]


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
