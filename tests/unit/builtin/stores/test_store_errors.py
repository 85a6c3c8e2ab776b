"""What a store's failure is called, and whether it passes by itself."""

from __future__ import annotations

from deltalake.exceptions import DeltaError

from kconnect.api import RetriableError
from kconnect.builtin.stores.store_errors import store_error


def test_what_packages_say_on_many_lines_is_one_sentence() -> None:
    rust = DeltaError("Kernel error:\n  ↳ HTTP error\n    ↳ Connection refused (os error 111)\n")
    told = store_error("read", "table s3://b/t", rust)
    assert isinstance(told, RetriableError)
    assert str(told) == "Cannot read table s3://b/t: DeltaError: Kernel error: .. Connection refused (os error 111)"
    sql = ValueError("unable to open database file\n(Background on this error at: https://sqlalche.me/e/21/e3q8)")
    assert str(store_error("read", "table t", sql)) == "Cannot read table t: ValueError: unable to open database file"


def test_a_file_that_is_not_there_is_looked_for_again_unless_told_otherwise() -> None:
    gone = FileNotFoundError(2, "No such file or directory", "x")
    assert isinstance(store_error("read", "table t", gone), RetriableError), "its writer may have exchanged it"
    lasting = store_error("list", "x", gone, "Check it.", (FileNotFoundError,))
    assert not isinstance(lasting, RetriableError)
    assert (str(lasting), lasting.hint) == ("Cannot list x: No such file or directory: x", "Check it.")


def test_a_full_disk_is_waited_for_and_nothing_is_lost() -> None:
    told = store_error("write", "x", OSError(28, "No space left on device"))
    assert isinstance(told, RetriableError)
    expected = "Cannot write x: No space left on device. Nothing is lost: it is tried again until there is room."
    assert str(told) == expected
