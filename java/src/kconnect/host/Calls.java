package kconnect.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Connector;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.sink.SinkTask;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** What a new session can be asked: to make a plugin that it then serves, or something about a plugin. */
final class Calls implements Session.Served {
    private final Session session;
    private final Folders folders;

    Calls(Session session) {
        this.session = session;
        this.folders = session.host().folders();
    }

    @Override
    public Object call(String method, JsonNode a) throws Exception {
        return switch (method) {
            case "describe" -> describe(a);
            case "load" -> load(a);
            case "connector" -> serveOne(new ConnectorCalls(session, make(a, Connector.class)));
            case "source" -> {
                session.host().awaitLeft(session.task());
                yield serveOne(new SourceCalls(session, make(a, SourceTask.class)));
            }
            case "sink" -> {
                session.host().awaitLeft(session.task());
                yield serveOne(new SinkCalls(session, make(a, SinkTask.class), named(a)));
            }
            case "worker" -> serve(new WorkerCalls(session.host(), a.get("key").asText(), make(a, Object.class)));
            case "worker_again" -> {
                WorkerCalls made = session.host().ofWorker().get(a.get("key").asText());
                if (made == null) throw new ConnectException("It is closed");
                yield serve(made::call);
            }
            case "stage" -> serveOne(new StageCalls(session, a));
            case "levels" -> {
                Log.setLevels(levels(a));
                yield null;
            }
            default -> throw new ConnectException("Unknown call: " + method);
        };
    }

    static Map<String, Integer> levels(JsonNode a) {
        Map<String, Integer> found = new HashMap<>();
        a.get("levels").fields().forEachRemaining(level -> found.put(level.getKey(), level.getValue().asInt()));
        return found;
    }

    private Object serve(Session.Served served) {
        session.serveWith(served);
        return null;
    }

    /** As `serve`, of what may have MBeans. */
    private Object serveOne(Session.Served served) {
        session.host().beans().join(session);
        return serve(served);
    }

    private <T> T make(JsonNode a, Class<T> kind) throws ReflectiveOperationException {
        return folders.make(a.get("class").asText(), Json.text(a.get("folder")), kind);
    }

    private static String named(JsonNode a) {
        String folder = Json.text(a.get("folder"));
        return a.get("class").asText() + (folder == null ? "" : " in " + folder);
    }

    /** Version and kinds of a plugin, and whether its class is the folder's own. */
    private Object load(JsonNode a) throws ReflectiveOperationException {
        Object plugin = make(a, Object.class);
        boolean isOwn = plugin.getClass().getClassLoader() == folders.loader(Json.text(a.get("folder")));
        return Json.map("version", Folders.version(plugin), "kinds", Kinds.of(plugin), "own", isOwn);
    }

    /** Version, kinds and settings of a plugin; each part it does not have is null. */
    private Object describe(JsonNode a) throws ReflectiveOperationException {
        Object plugin = make(a, Object.class);
        try (Swap swap = new Swap(plugin)) {
            return Json.map(
                    "version", plugin instanceof Task task ? task.version() : Folders.version(plugin),
                    "kinds", Kinds.of(plugin),
                    "config", ConfigJson.keys(configOf(plugin)));
        }
    }

    static ConfigDef configOf(Object plugin) {
        if (plugin instanceof Connector connector) return connector.config();
        if (plugin instanceof Transformation<?> transformation) return transformation.config();
        if (plugin instanceof Predicate<?> predicate) return predicate.config();
        if (plugin instanceof HeaderConverter converter) return converter.config();
        return plugin instanceof Converter converter ? converter.config() : new ConfigDef();
    }
}
