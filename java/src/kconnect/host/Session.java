package kconnect.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.slf4j.MDC;

/** One connection, served by one thread: the first call says who asks, each later one goes to what was made here. */
final class Session {
    private static final ThreadLocal<Session> CURRENT = new ThreadLocal<>();
    private static final ThreadLocal<Session> OWNER = new InheritableThreadLocal<>();
    private final Host host;
    private final Wire wire;
    private final Meter meter = new Meter(this);
    private long id = -1;
    private ConnectorTaskId task; // null unless it serves a task
    private Served served;

    /** What answers the calls of a session. */
    interface Served {
        /** The answer: JSON, or a ByteBuffer that is sent as a block. */
        Object call(String method, JsonNode arguments) throws Exception;

        /** The answer to a block of records. */
        default Object block(ByteBuffer body) throws Exception {
            throw new ConnectException("This plugin takes no records");
        }
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

    long id() {
        return id;
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
            id = hello.get("session").asLong();
            Thread.currentThread().setName(hello.get("thread").asText());
            if (hello.path("control").asBoolean()) {
                CURRENT.remove();
                Log.open(host.control(), Calls.levels(hello));
                host.control().run(wire);
                return;
            }
            OWNER.set(this);
            place(hello);
            host.threads().put(id, Thread.currentThread());
            served = new Calls(this);
            for (ByteBuffer body = wire.receive(); body != null; body = wire.receive()) {
                answer(body);
                Thread.interrupted(); // by the plugin that was called; the next call is not to be hurt by it
            }
        } catch (IOException e) {
            // Python has closed the connection, or is gone
        } finally {
            CURRENT.remove();
            meter.close();
            host.beans().leave(this);
            host.threads().remove(id);
            if (id > 0) host.control().tell(Json.map("e", "ended", "session", id));
            try {
                wire.close();
            } catch (IOException e) {
                // nothing left to close
            }
        }
    }

    /** Whose plugin it serves; plugins that log by slf4j find it where Java's worker puts it (KIP-449). */
    private void place(JsonNode hello) {
        String connector = Json.text(hello.get("connector"));
        if (connector == null) return;
        if (hello.hasNonNull("task")) task = new ConnectorTaskId(connector, hello.get("task").asInt());
        MDC.put("connector.context", "[" + connector + "|" + (task == null ? "worker" : "task-" + task.task()) + "] ");
    }

    /** From now on calls go there. */
    void serveWith(Served made) {
        served = made;
    }

    private void answer(ByteBuffer body) throws IOException {
        Object result;
        try {
            if (wire.kind() == Wire.BLOCK) {
                result = served.block(body);
            } else {
                JsonNode call = Json.read(body);
                result = served.call(call.get("m").asText(), call);
            }
        } catch (Throwable e) {
            // Also an OutOfMemoryError that Java's own code throws, as of direct buffers: the JVM's own have ended it
            wire.send(Wire.ERROR, Errors.describe(e));
            return;
        }
        if (result instanceof ByteBuffer block) wire.send(Wire.BLOCK, block);
        else wire.send(Wire.RESULT, result);
    }
}
