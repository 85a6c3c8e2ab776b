package kconnect.host;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Deque;

/**
 * Events on their way to Python, in order. A thread of ours writes them, never one of a plugin: that may be interrupted,
 * and a channel is closed by the first interrupted thread that uses it.
 */
final class Outbox {
    // What lines may take of the heap; in a flood of them plugins wait for Python, as they would for a full socket
    private static final int MOST_BYTES = 1 << 20;
    private static final long END_MS = 3000;
    private static final long AGAIN_MS = 100;
    private final Deque<ByteBuffer> waiting = new ArrayDeque<>(); // guarded by this, as is all below
    private int bytes; // of those, and of the one that is being written
    private Wire wire; // null until Python is there
    private boolean isClosed;

    /** From now on events are written, first those that wait. */
    synchronized void open(Wire given) {
        wire = given;
        Thread thread = new Thread(this::write, "kconnect-events");
        thread.setDaemon(true);
        thread.start();
    }

    /** Has an event written; before Python is there, one too many is dropped. Threads: any, interrupted or not. */
    void add(Object event) {
        ByteBuffer text = ByteBuffer.wrap(Json.bytes(event));
        boolean isInterrupted = false;
        synchronized (this) {
            while (bytes >= MOST_BYTES && wire != null && !isClosed) {
                try {
                    wait();
                } catch (InterruptedException e) {
                    isInterrupted = true; // the plugin sees it afterwards
                }
            }
            if (bytes < MOST_BYTES && !isClosed) {
                waiting.add(text);
                bytes += text.remaining();
                notifyAll();
            }
        }
        if (isInterrupted) Thread.currentThread().interrupt();
    }

    private void write() {
        try {
            while (true) write(next());
        } catch (IOException | InterruptedException e) {
            // the connection is gone, and Python ends this process
        } finally {
            close();
        }
    }

    private synchronized ByteBuffer next() throws InterruptedException {
        while (waiting.isEmpty()) wait();
        return waiting.remove();
    }

    private void write(ByteBuffer event) throws IOException, InterruptedException {
        int size = event.remaining();
        while (event.hasRemaining()) {
            try {
                wire.send(Wire.EVENT, event);
            } catch (OutOfMemoryError e) {
                Thread.sleep(AGAIN_MS); // of direct buffers, which a plugin has used up; nothing is written yet
            }
        }
        synchronized (this) {
            bytes -= size;
            notifyAll();
        }
    }

    /** Nobody is there any more: what waits is dropped, and all that comes. */
    synchronized void close() {
        isClosed = true;
        waiting.clear();
        notifyAll();
    }

    /** Waits until all is written, for a while. */
    synchronized void drain() {
        long deadline = System.nanoTime() + END_MS * 1_000_000;
        try {
            for (long left = END_MS; bytes > 0 && wire != null && !isClosed && left > 0; left = (deadline - System.nanoTime()) / 1_000_000) {
                wait(left);
            }
        } catch (InterruptedException e) {
            return; // by another hook, which is a plugin's
        }
    }
}
