package kconnect.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.connect.errors.ConnectException;

/** The connection on which Java speaks first: log lines, events, and questions of threads that serve no call. */
final class Control {
    private static final long ANSWER_S = 60;
    private static final String OURS = "kconnect.host.";
    private final Host host;
    private final int client;
    private final Map<Long, Session> sessions = new ConcurrentHashMap<>();
    private final Map<Long, CompletableFuture<JsonNode>> waiting = new ConcurrentHashMap<>();
    private final AtomicLong numbers = new AtomicLong();
    private final Outbox outbox = new Outbox();
    private volatile boolean isGone;

    Control(Host host, int client) {
        this.host = host;
        this.client = client;
    }

    int client() {
        return client;
    }

    /** Whether the process at the other end is gone. */
    boolean isGone() {
        return isGone;
    }

    /** Those that are open, by their numbers. */
    Map<Long, Session> sessions() {
        return sessions;
    }

    /** Serves the connection until its end, with which the client ends. */
    void run(Wire given) throws IOException {
        outbox.open(given);
        try {
            serve(given);
        } finally {
            if (client != Host.OWNER) leave(); // with whom standard input ends, and with it all of this
        }
    }

    private void leave() {
        isGone = true;
        outbox.close();
        waiting.values().forEach(asked -> asked.completeExceptionally(new ConnectException("The connection is closed")));
        host.leave(this);
    }

    private void serve(Wire given) throws IOException {
        for (var body = given.receive(); body != null; body = given.receive()) {
            JsonNode answer = Json.read(body);
            if (answer.has("ping")) {
                tell(Json.map("e", "pong"));
                continue;
            }
            if (answer.has("stack")) {
                tellStack(answer.get("stack").asLong());
                continue;
            }
            CompletableFuture<JsonNode> asked = waiting.remove(answer.get("number").asLong());
            if (asked != null) asked.complete(answer);
        }
    }

    /** Where the thread of a session is in its plugin, innermost call first; nowhere if it waits for a call. */
    private void tellStack(long session) {
        Session asked = sessions.get(session);
        if (asked == null) return;
        List<String> frames = new ArrayList<>();
        boolean isCalled = false;
        boolean isInPlugin = true;
        for (StackTraceElement frame : asked.thread().getStackTrace()) {
            isCalled |= frame.getClassName().equals(Session.class.getName()) && frame.getMethodName().equals("answer");
            isInPlugin &= !frame.getClassName().startsWith(OURS); // below is what called it
            if (isInPlugin) frames.add(frame.toString());
        }
        if (!isCalled) frames.clear();
        tell(Json.map("e", "stack", "session", session, "arguments", frames));
    }

    /** Tells Python. Threads: any; never fails. */
    void tell(Map<String, Object> event) {
        outbox.add(event);
    }

    /** Waits until all events are written, for a while, before the JVM ends. */
    void drain() {
        outbox.drain();
    }

    /** Asks Python. Threads: any that serves no call. */
    JsonNode ask(long session, String what, Object arguments) {
        long number = numbers.incrementAndGet();
        CompletableFuture<JsonNode> answer = new CompletableFuture<>();
        waiting.put(number, answer);
        if (isGone) answer.completeExceptionally(new ConnectException("The connection is closed"));
        tell(Json.map("e", "ask", "number", number, "session", session, "what", what, "arguments", arguments));
        try {
            return answer.get(ANSWER_S, TimeUnit.SECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new ConnectException("Interrupted while waiting for the worker: " + what, e);
        } catch (ExecutionException | TimeoutException e) {
            throw new ConnectException("The worker did not answer within " + ANSWER_S + " s: " + what, e);
        } finally {
            waiting.remove(number);
        }
    }

    /** What plugins print, as log lines. */
    PrintStream stream(String name) {
        return new PrintStream(new Lines(name), true, StandardCharsets.UTF_8);
    }

    private static final class Lines extends OutputStream {
        private final String name;
        private final ByteArrayOutputStream line = new ByteArrayOutputStream();

        Lines(String name) {
            this.name = name;
        }

        @Override
        public synchronized void write(int next) {
            if (next != '\n') {
                line.write(next);
                return;
            }
            Log.printed(name, line.toString(StandardCharsets.UTF_8));
            line.reset();
        }
    }
}
