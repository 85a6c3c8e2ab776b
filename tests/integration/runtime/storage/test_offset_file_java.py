"""The offsets file beside the JDK itself: ObjectInputStream reads ours, we read what ObjectOutputStream writes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kconnect.model import ConnectorOffset
from kconnect.runtime.storage import FileOffsetStore, commit_source_offsets, list_source_offsets, read_source_offsets
from kit.pace import ample_s

pytestmark = pytest.mark.java

# Reads the map as FileOffsetBackingStore does, prints it, adds an entry and writes it again.
PROGRAM = """
import java.io.*; import java.nio.file.*; import java.util.*;
public class Offsets {
    @SuppressWarnings("unchecked")
    public static void main(String[] args) throws Exception {
        Path path = Paths.get(args[0]);
        HashMap<byte[], byte[]> map = new HashMap<>();
        if (Files.exists(path) && Files.size(path) > 0)
            try (ObjectInputStream in = new ObjectInputStream(Files.newInputStream(path))) {
                Object object = in.readObject();
                if (object.getClass() != HashMap.class) throw new IllegalStateException("" + object.getClass());
                map = (HashMap<byte[], byte[]>) object;
                if (in.read() != -1) throw new IllegalStateException("more bytes follow");
            }
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        for (Map.Entry<byte[], byte[]> entry : map.entrySet())
            out.println(new String(entry.getKey(), "UTF-8") + " = "
                + (entry.getValue() == null ? "null" : new String(entry.getValue(), "UTF-8")));
        for (int i = 1; i + 1 < args.length; i += 2)
            map.put(args[i].getBytes("UTF-8"), args[i + 1].equals("null") ? null : args[i + 1].getBytes("UTF-8"));
        try (ObjectOutputStream stream = new ObjectOutputStream(Files.newOutputStream(path))) {
            stream.writeObject(map);
        }
    }
}
"""


@pytest.fixture(scope="module")
def java(tmp_path_factory):
    source = tmp_path_factory.mktemp("java") / "Offsets.java"
    source.write_text(PROGRAM, encoding="utf-8")

    def run(path: Path, *entries: str) -> set[str]:
        command = ["java", "-XX:TieredStopAtLevel=1", "-Dsun.jnu.encoding=UTF-8", "-Dfile.encoding=UTF-8"]
        done = subprocess.run(
            [*command, str(source), str(path), *entries], capture_output=True, timeout=ample_s(60), check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        return set(done.stdout.decode().splitlines())

    return run


@pytest.mark.parametrize("count", [0, 1, 12, 13, 30])
def test_java_reads_what_we_write(tmp_path, java, count):
    path = tmp_path / "offsets"
    store = FileOffsetStore(path)
    store.start()
    offsets = [ConnectorOffset({"filename": f"/ü{n}"}, {"position": n} if n % 5 else None) for n in range(count)]
    commit_source_offsets(store, "src", offsets)
    expected = {
        f'["src",{{"filename":"/ü{n}"}}] = ' + (f'{{"position":{n}}}' if n % 5 else "null") for n in range(count)
    }
    assert java(path) == expected


def test_java_and_we_take_over_from_each_other(tmp_path, java):
    path = tmp_path / "offsets"
    java(path, '["src",{"filename":"a"}]', '{"position":1}', '["other",{}]', "null", "noise", "kept")
    store = FileOffsetStore(path)
    store.start()
    assert read_source_offsets(store, "src", [{"filename": "a"}]) == [{"position": 1}]
    commit_source_offsets(store, "src", [ConnectorOffset({"filename": "a"}, {"position": 2})])
    store.stop()
    assert java(path, '["src",{"filename":"b"}]', '{"position":9}') == {
        '["src",{"filename":"a"}] = {"position":2}',
        '["other",{}] = null',
        "noise = kept",
    }
    again = FileOffsetStore(path)
    again.start()
    assert {item.partition["filename"] for item in list_source_offsets(again, "src")} == {"a", "b"}
