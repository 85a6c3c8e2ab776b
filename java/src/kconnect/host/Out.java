package kconnect.host;

import java.nio.ByteBuffer;

/** A growing buffer in which columns are written, each aligned to 8 bytes as Arrow wants them. Used again and again. */
final class Out {
    private static final int KEPT = 1 << 24;
    private static final int FIRST = 1 << 12; // as in Wire
    private ByteBuffer buffer = Wire.buffer(FIRST);

    /** An empty buffer; one that a huge batch made is let go. */
    Out restart() {
        if (buffer.capacity() > KEPT) buffer = Wire.buffer(FIRST);
        buffer.clear();
        return this;
    }

    /** The buffer with room for so many bytes more. */
    ByteBuffer room(long bytes) {
        if (buffer.remaining() < bytes) {
            long wanted = buffer.position() + bytes;
            if (wanted > Integer.MAX_VALUE - 64) throw new IllegalStateException("A poll gave more than 2 GB");
            ByteBuffer larger = Wire.buffer((int) Math.min(Integer.MAX_VALUE - 64, Math.max(wanted, buffer.capacity() * 2L)));
            larger.put(buffer.flip());
            buffer = larger;
        }
        return buffer;
    }

    Out align() {
        int gap = -buffer.position() & 7;
        room(8);
        for (int i = 0; i < gap; i++) buffer.put((byte) 0);
        return this;
    }

    void integer(int value) {
        room(4).putInt(value);
    }

    void json(Object value) {
        byte[] text = Json.bytes(value);
        room(text.length + 4L).putInt(text.length).put(text);
    }

    /** Bits that say which values are not null. */
    void validity(Object[] values, int count) {
        align();
        ByteBuffer out = room(count / 8 + 16L);
        for (int i = 0; i < count; i += 8) {
            int bits = 0;
            for (int j = i; j < count && j < i + 8; j++) if (values[j] != null) bits |= 1 << (j - i);
            out.put((byte) bits);
        }
    }

    /** A column of bytes: validity, int32 offsets, data. */
    void binary(byte[][] values, int count) {
        validity(values, count);
        align();
        ByteBuffer out = room(4L * (count + 1));
        long end = 0;
        out.putInt(0);
        for (int i = 0; i < count; i++) {
            if (values[i] != null) end += values[i].length;
            if (end > Integer.MAX_VALUE) throw new IllegalStateException("A poll gave more than 2 GB");
            out.putInt((int) end);
        }
        align();
        out = room(end);
        for (int i = 0; i < count; i++) if (values[i] != null) out.put(values[i]);
    }

    void longs(long[] values, int count) {
        align();
        ByteBuffer out = room(8L * count);
        for (int i = 0; i < count; i++) out.putLong(values[i]);
    }

    void integers(int[] values, int count) {
        align();
        ByteBuffer out = room(4L * count);
        for (int i = 0; i < count; i++) out.putInt(values[i]);
    }

    ByteBuffer done() {
        return buffer.flip();
    }
}
