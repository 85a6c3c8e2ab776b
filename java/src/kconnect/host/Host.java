package kconnect.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.security.MessageDigest;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.connect.util.ConnectorTaskId;

/** What all sessions of the process share. Its clients: the process that has started it, 0, and those it lends it to. */
final class Host {
    static final int OWNER = 0;
    // As long as Python waits before a plugin that had to stop counts as hanging; then its task may run beside it
    private static final long LEFT_BEHIND_MS = 10_000;
    private final Folders folders;
    private final Control owner = new Control(this, OWNER);
    private final Map<Integer, Control> controls = new ConcurrentHashMap<>(Map.of(OWNER, owner));
    private final Set<Integer> gone = ConcurrentHashMap.newKeySet();
    private final Set<Session> left = new HashSet<>(); // guarded by itself, as is what leaves a Control's sessions
    private final Map<String, WorkerCalls> ofWorker = new ConcurrentHashMap<>();
    private final Meters meters = new Meters();
    private final Beans beans;
    private final byte[] token;

    Host(JsonNode start) {
        Map<String, List<String>> places = new HashMap<>();
        Map<String, List<String>> kinds = new HashMap<>();
        start.get("index").fields().forEachRemaining(plugin -> {
            places.put(plugin.getKey(), Json.list(plugin.getValue().get("places")));
            kinds.put(plugin.getKey(), Json.list(plugin.getValue().get("kinds")));
        });
        folders = new Folders(places, kinds);
        Swap.letKafkaSee(folders);
        beans = new Beans(this, Json.list(start.path("mbeans")));
        token = start.get("token").asText().getBytes(StandardCharsets.UTF_8);
        Path folder = Path.of(start.get("socket").asText()).getParent();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> end(folder), "kconnect-last-events"));
    }

    /** A plugin that ends the JVM may have said why. */
    private void end(Path folder) {
        Ending.note(folder, controls.values().stream().flatMap(each -> each.sessions().values().stream()).toList());
        controls.values().forEach(Control::drain);
    }

    Folders folders() {
        return folders;
    }

    /** The connection to who has started the JVM: it is informed of what belongs to nobody. */
    Control owner() {
        return owner;
    }

    /** The connection to a client; null once that is gone. */
    Control control(int client) {
        Control found = gone.contains(client) ? null : controls.computeIfAbsent(client, number -> new Control(this, number));
        return gone.contains(client) ? null : found;
    }

    /** A client is gone, however it ended: its plugins end, as they would with a JVM of its own. */
    void leave(Control control) {
        gone.add(control.client());
        controls.remove(control.client());
        synchronized (left) {
            for (Session session : control.sessions().values()) {
                left.add(session);
                owner.tell(session.reported("left"));
                session.end();
            }
        }
    }

    /** A session is over; only now may its task run for another client. */
    void leave(Session session) {
        synchronized (left) {
            session.control().sessions().remove(session.id());
            if (!left.remove(session)) return;
            owner.tell(session.reported("gone"));
            left.notifyAll();
        }
    }

    /** Waits until no client that is gone has a plugin of this task here, for a while. */
    void awaitLeft(ConnectorTaskId task) throws InterruptedException {
        long deadline = System.nanoTime() + LEFT_BEHIND_MS * 1_000_000;
        synchronized (left) {
            while (task != null && left.stream().anyMatch(session -> task.equals(session.task()))) {
                long wait = (deadline - System.nanoTime()) / 1_000_000;
                if (wait <= 0) return;
                left.wait(wait);
            }
        }
    }

    /** Plugins of the worker, by the keys that Python gave them. */
    Map<String, WorkerCalls> ofWorker() {
        return ofWorker;
    }

    Meters meters() {
        return meters;
    }

    Beans beans() {
        return beans;
    }

    boolean knows(String given) {
        return MessageDigest.isEqual(token, given.getBytes(StandardCharsets.UTF_8));
    }
}
