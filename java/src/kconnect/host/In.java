package kconnect.host;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;

/** Reads what Python wrote in the form of Out. */
final class In {
    private final ByteBuffer buffer;
    private final int start;

    In(ByteBuffer buffer) {
        this.buffer = buffer;
        this.start = buffer.position();
    }

    In align() {
        buffer.position(Math.min(buffer.limit(), start + ((buffer.position() - start + 7) & ~7)));
        return this;
    }

    int integer() {
        return buffer.getInt();
    }

    JsonNode json() throws IOException {
        byte[] text = new byte[buffer.getInt()];
        buffer.get(text);
        return Json.read(new String(text, StandardCharsets.UTF_8));
    }

    /** Which values are there. */
    boolean[] validity(int count) {
        align();
        boolean[] made = new boolean[count];
        int at = buffer.position();
        for (int i = 0; i < count; i++) made[i] = (buffer.get(at + (i >> 3)) >> (i & 7) & 1) == 1;
        buffer.position(at + (count + 7) / 8);
        return made;
    }

    byte[][] binary(int count) {
        boolean[] there = validity(count);
        align();
        int[] ends = new int[count + 1];
        for (int i = 0; i <= count; i++) ends[i] = buffer.getInt();
        align();
        byte[][] made = new byte[count][];
        for (int i = 0; i < count; i++) {
            byte[] value = new byte[ends[i + 1] - ends[i]];
            buffer.get(value);
            if (there[i]) made[i] = value;
        }
        return made;
    }

    long[] longs(int count) {
        align();
        long[] made = new long[count];
        for (int i = 0; i < count; i++) made[i] = buffer.getLong();
        return made;
    }

    int[] integers(int count) {
        align();
        int[] made = new int[count];
        for (int i = 0; i < count; i++) made[i] = buffer.getInt();
        return made;
    }

    ByteBuffer raw(int size) {
        ByteBuffer made = buffer.slice(buffer.position(), size).order(buffer.order());
        buffer.position(buffer.position() + size);
        return made;
    }
}
