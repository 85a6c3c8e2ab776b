package kconnect.host;

import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.SocketChannel;
import java.util.ArrayDeque;
import java.util.Deque;

/**
 * Frames of one connection: int32 length of the body, one byte that says its kind, the body. Little endian.
 * Threads: one reads; any may send.
 */
final class Wire {
    static final byte CALL = 'C'; // JSON: {"m": method, ..}
    static final byte RESULT = 'R'; // JSON
    static final byte ERROR = 'E'; // JSON of Errors
    static final byte UPCALL = 'U'; // JSON: Java asks Python in the middle of a call
    static final byte EVENT = 'V'; // JSON: Java tells Python, no answer
    static final byte BLOCK = 'B'; // records, see Block
    private static final int HEAD = 5;
    private static final int FIRST = 1 << 12; // each of a hundred idle plugins has one; it grows with what comes
    private static final int LARGEST = Integer.MAX_VALUE - 64;

    private final SocketChannel channel;
    private final ByteBuffer head = buffer(HEAD);
    private final ByteBuffer sentHead = buffer(HEAD);
    private ByteBuffer in = buffer(FIRST);
    private byte kind;
    private final Deque<Frame> early = new ArrayDeque<>(); // came before the answer that was waited for

    private record Frame(byte kind, ByteBuffer body) {}

    /** A block in which the thread is not interrupted: an interrupted one that uses a channel closes it. */
    private static final class Calm implements AutoCloseable {
        private final boolean wasInterrupted = Thread.interrupted();

        @Override
        public void close() {
            if (wasInterrupted) Thread.currentThread().interrupt();
        }
    }

    Wire(SocketChannel channel) {
        this.channel = channel;
    }

    static ByteBuffer buffer(int size) {
        return ByteBuffer.allocate(size).order(ByteOrder.LITTLE_ENDIAN);
    }

    /** The body of the next frame, valid until the next call; null when Python has closed the connection. */
    ByteBuffer receive() throws IOException {
        Frame frame = early.poll();
        if (frame == null) return next();
        kind = frame.kind;
        return frame.body;
    }

    /** The answer to a question of ours; what Python sent before it read the question waits for receive(). */
    ByteBuffer answer() throws IOException {
        ByteBuffer body = next();
        for (; body != null && kind != RESULT; body = next()) {
            early.add(new Frame(kind, buffer(body.remaining()).put(body).flip()));
        }
        return body;
    }

    private ByteBuffer next() throws IOException {
        try (Calm calm = new Calm()) {
            return read();
        }
    }

    private ByteBuffer read() throws IOException {
        head.clear();
        if (!fill(head)) return null;
        int length = head.flip().getInt();
        kind = head.get();
        if (length < 0 || length > LARGEST) throw new IOException("A frame cannot have " + length + " bytes");
        if (in.capacity() < length) in = buffer(Math.max(length, (int) Math.min(LARGEST, in.capacity() * 2L)));
        in.clear().limit(length);
        if (!fill(in) && length > 0) throw new EOFException("The connection broke off inside a frame");
        return in.flip();
    }

    /** The kind of the frame that receive() gave. */
    byte kind() {
        return kind;
    }

    synchronized void send(byte kind, ByteBuffer body) throws IOException {
        sentHead.clear();
        sentHead.putInt(body.remaining()).put(kind).flip();
        ByteBuffer[] parts = {sentHead, body};
        try (Calm calm = new Calm()) {
            while (sentHead.hasRemaining() || body.hasRemaining()) channel.write(parts);
        }
    }

    void send(byte kind, Object json) throws IOException {
        send(kind, ByteBuffer.wrap(Json.bytes(json)));
    }

    void close() throws IOException {
        channel.close();
    }

    private boolean fill(ByteBuffer target) throws IOException {
        while (target.hasRemaining()) {
            if (channel.read(target) < 0) {
                if (target.position() == 0) return false;
                throw new EOFException("The connection broke off inside a frame");
            }
        }
        return true;
    }
}
