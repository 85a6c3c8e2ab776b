"""What a store's failure is called, and whether it passes by itself."""

from __future__ import annotations

from deltalake.exceptions import DeltaError

from kconnect.api import RetriableError
from kconnect.builtin.stores.store_errors import store_error


def test_what_packages_say_on_many_lines_is_one_sentence() -> None:
    rust = DeltaError("Kernel error:\n  ↳ HTTP error\n    ↳ Connection refused (os error 111)\n")
    reported = store_error("read", "table s3://b/t", rust)
    assert isinstance(reported, RetriableError)
    assert str(reported) == "Cannot read table s3://b/t: DeltaError: Kernel error: .. Connection refused (os error 111)"
    sql = ValueError("unable to open database file\n(Background on this error at: https://sqlalche.me/e/21/e3q8)")
    assert str(store_error("read", "table t", sql)) == "Cannot read table t: ValueError: unable to open database file"


def test_frames_of_native_code_and_colours_are_left_out() -> None:
    frames = "\n   0: <unknown>\n  11: cfunction_vectorcall\n             at ./misc/../clone3.S:81:0\n"
    rust = Exception(f"External error: Schema error: Invalid data type for Delta Lake: Time64(µs){frames}")
    expected = "Cannot create table t: Schema error: Invalid data type for Delta Lake: Time64(µs)"
    assert str(store_error("create", "table t", rust)) == expected
    coloured = OSError("Kernel error -> Generic S3 error\n  \x1b[31m↳\x1b[0m Connection refused (os error 111)\n")
    reported = str(store_error("read", "table t", coloured))
    assert (
        reported
        == "Cannot read table t: OSError: Kernel error -> Generic S3 error .. Connection refused (os error 111)"
    )


def test_a_file_that_is_not_there_is_looked_for_again_unless_reported_otherwise() -> None:
    gone = FileNotFoundError(2, "No such file or directory", "x")
    assert isinstance(store_error("read", "table t", gone), RetriableError), "its writer may have exchanged it"
    lasting = store_error("list", "x", gone, "Check it.", (FileNotFoundError,))
    assert not isinstance(lasting, RetriableError)
    assert (str(lasting), lasting.hint) == ("Cannot list x: No such file or directory: x", "Check it.")


def test_a_full_disk_is_waited_for_and_nothing_is_lost() -> None:
    reported = store_error("write", "x", OSError(28, "No space left on device"))
    assert isinstance(reported, RetriableError)
    expected = "Cannot write x: No space left on device. Nothing is lost: it is tried again until there is room."
    assert str(reported) == expected
