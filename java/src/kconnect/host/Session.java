package kconnect.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.slf4j.MDC;

/** One connection, served by one thread: the first call says who asks, each later one goes to what was made here. */
final class Session {
    private static final ThreadLocal<Session> CURRENT = new ThreadLocal<>();
    private static final ThreadLocal<Session> OWNER = new InheritableThreadLocal<>();
    private static final AtomicLong COUNT = new AtomicLong();
    // After an interrupt, which most plugins heed
    private static final long HEEDS_MS = 1000;
    private final long ordinal = COUNT.incrementAndGet();
    private final Thread thread = Thread.currentThread();
    private final Host host;
    private final Wire wire;
    private final Meter meter = new Meter(this);
    private Control control;
    private long id = -1;
    private String connector; // null if it serves none
    private ConnectorTaskId task; // null unless it serves a task
    private volatile Served served;
    private boolean isLeaving; // guarded by this: its thread stops what it served

    /** What answers the calls of a session. */
    interface Served {
        /** The answer: JSON, or a ByteBuffer that is sent as a block. */
        Object call(String method, JsonNode arguments) throws Exception;

        /** The answer to a block of records. */
        default Object block(ByteBuffer body) throws Exception {
            throw new ConnectException("This plugin takes no records");
        }

        /**
         * Nobody calls any more: what was started and not stopped is stopped, once. `inCall`: on another thread, in the
         * midst of a call, as its process is gone.
         */
        default void leave(boolean inCall) throws Exception {}
    }

    Session(Host host, Wire wire) {
        this.host = host;
        this.wire = wire;
    }

    /** The session that this thread serves, null on threads of plugins. */
    static Session current() {
        return CURRENT.get();
    }

    /** The session whose plugin runs on this thread, or has started it, or the thread that did; null if none. */
    static Session owner() {
        return OWNER.get();
    }

    Host host() {
        return host;
    }

    Wire wire() {
        return wire;
    }

    /** The number that its client gave it. */
    long id() {
        return id;
    }

    /** How manieth of all it is. */
    long ordinal() {
        return ordinal;
    }

    /** The thread that serves it. */
    Thread thread() {
        return thread;
    }

    Control control() {
        return control;
    }

    /** What its client's end makes of it, for the owner. */
    Map<String, Object> reported(String event) {
        return Json.map("e", event, "client", control.client(), "number", id,
                "connector", connector, "task", task == null ? null : task.task());
    }

    /** Has an event say whose it is, and gives the connection for it. */
    Control address(Map<String, Object> event) {
        if (!control.isGone()) {
            event.put("session", id);
            return control;
        }
        event.put("place", Arrays.asList(connector, task == null ? null : task.task()));
        return host.owner();
    }

    /** The connector or task that it is of, as people name it. */
    String who() {
        return task != null ? task.toString() : connector != null ? connector : "a plugin of the worker";
    }

    /** The task whose plugin this serves; null if it serves none. */
    ConnectorTaskId task() {
        return task;
    }

    Meter meter() {
        return meter;
    }

    void run() {
        CURRENT.set(this);
        try {
            JsonNode hello = Json.read(wire.receive());
            if (!host.knows(hello.path("token").asText())) return;
            control = host.control(hello.path("client").asInt(Host.OWNER));
            if (control == null) return;
            id = hello.get("session").asLong();
            Thread.currentThread().setName(hello.get("thread").asText());
            if (hello.path("control").asBoolean()) {
                CURRENT.remove();
                if (control == host.owner()) Log.open(control, Calls.levels(hello));
                control.run(wire);
                return;
            }
            OWNER.set(this);
            place(hello);
            served = new Calls(this);
            control.sessions().put(id, this);
            if (control.isGone()) return; // meanwhile
            for (ByteBuffer body = wire.receive(); body != null; body = wire.receive()) {
                answer(body);
                Thread.interrupted(); // by the plugin that was called; the next call is not to be hurt by it
            }
        } catch (IOException e) {
            // Python has closed the connection, or is gone
        } finally {
            CURRENT.remove();
            if (id > 0) leave(false);
            meter.close();
            host.beans().leave(this);
            if (id > 0) {
                control.tell(Json.map("e", "ended", "session", id));
                host.leave(this);
            }
            try {
                wire.close();
            } catch (IOException e) {
                // nothing left to close
            }
        }
    }

    /** Whose plugin it serves; plugins that log by slf4j find it where Java's worker puts it (KIP-449). */
    private void place(JsonNode hello) {
        connector = Json.text(hello.get("connector"));
        if (connector == null) return;
        if (hello.hasNonNull("task")) task = new ConnectorTaskId(connector, hello.get("task").asInt());
        MDC.put("connector.context", "[" + connector + "|" + (task == null ? "worker" : "task-" + task.task()) + "] ");
    }

    /**
     * Ends it because its client is gone: the thread is interrupted, and what does not heed that is stopped while it is in
     * its call, as SourceTask.stop() allows.
     */
    void end() {
        Thread ending = new Thread(null, () -> {
            try {
                synchronized (this) {
                    if (!isLeaving) thread.interrupt(); // not what it stops then
                }
                wire.close();
                thread.join(HEEDS_MS);
            } catch (IOException | InterruptedException e) {
                // nobody else knows this thread
            }
            if (thread.isAlive()) leave(true);
        }, "kconnect-end-" + thread.getName(), 0, false);
        ending.setDaemon(true);
        ending.start();
    }

    private void leave(boolean inCall) {
        synchronized (this) {
            isLeaving |= !inCall;
            Thread.interrupted();
        }
        try {
            if (served != null) served.leave(inCall);
        } catch (Throwable e) {
            Log.write(this, Session.class.getName(), Log.WARN, "A plugin that nobody calls any more did not stop well", e);
        }
    }

    /** From now on calls go there. */
    void serveWith(Served made) {
        served = made;
    }

    private void answer(ByteBuffer body) throws IOException {
        ByteBuffer block;
        byte kind = Wire.BLOCK;
        try {
            Object result;
            if (wire.kind() == Wire.BLOCK) {
                result = served.block(body);
            } else {
                JsonNode call = Json.read(body);
                result = served.call(call.get("m").asText(), call);
            }
            if (result instanceof ByteBuffer made) {
                block = made;
            } else {
                kind = Wire.RESULT;
                block = ByteBuffer.wrap(Json.bytes(result)); // of a plugin's maps, which may have what JSON has not
            }
        } catch (Throwable e) {
            // Also an OutOfMemoryError that Java's own code throws, as of direct buffers: the JVM's own have ended it
            wire.send(Wire.ERROR, Errors.describe(e));
            return;
        }
        wire.send(kind, block);
    }
}
