package kconnect.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.storage.OffsetStorageReader;
import org.apache.kafka.connect.storage.OffsetUtils;

/** Committed source offsets, which Python has; converted by the class that Java's worker converts them with. */
final class Offsets implements OffsetStorageReader {
    private static final String LOGGER = Offsets.class.getName();
    private static final String NO_TOPIC = "offsets";
    private static final JsonConverter CONVERTER = Json.converter(false);
    private final Upcall upcall;

    Offsets(Upcall upcall) {
        this.upcall = upcall;
    }

    @Override
    public <T> Map<String, Object> offset(Map<String, T> partition) {
        return offsets(List.of(partition)).get(partition);
    }

    @Override
    public <T> Map<Map<String, T>, Map<String, Object>> offsets(Collection<Map<String, T>> partitions) {
        List<Map<String, T>> wanted = new ArrayList<>(partitions);
        wanted.removeIf(Offsets::cannotBeLookedUp);
        List<Object> asked = new ArrayList<>();
        wanted.forEach(partition -> asked.add(json(partition)));
        JsonNode found = upcall.ask("offsets", asked);
        Map<Map<String, T>, Map<String, Object>> made = new HashMap<>();
        for (int i = 0; i < wanted.size(); i++) {
            made.put(wanted.get(i), map(found.get(i))); // null where there is none, as in Java's worker
        }
        return made;
    }

    /** Java's worker gives no offset for it either, and goes on. Source: OffsetStorageReaderImpl. */
    private static boolean cannotBeLookedUp(Map<String, ?> partition) {
        String reason = reason(partition);
        if (reason != null) {
            Log.write(LOGGER, Log.ERROR, "There is no offset for the source partition " + Misfit.text(partition) + ": " + reason, null);
        }
        return reason != null;
    }

    /**
     * A partition or offset as JSON, with the numbers and the order in which Java's worker writes it. What a worker cannot
     * store is an object that says why: {"unstorable": reason, "text": the value's}. Its task runs on, as in Java, and what
     * commits its offsets fails.
     */
    JsonNode json(Map<String, ?> map) {
        if (map == null) return null;
        try {
            JsonNode made = node(map);
            if (isStorable(made)) return made;
        } catch (DataException e) {
            // said below
        }
        ObjectNode made = JsonNodeFactory.instance.objectNode();
        String reason = reason(map);
        ((Map<?, ?>) map).forEach((name, value) -> {
            boolean isFine = name instanceof String && reason(Collections.singletonMap((String) name, value)) == null;
            made.set(String.valueOf(name), isFine ? node(value) : unstorable(reason, value));
        });
        return made;
    }

    /** Whether a partition or offset of `json` can be stored. */
    static boolean isStorable(JsonNode made) {
        if (!made.isObject()) return false;
        for (JsonNode value : made) if (value.isContainerNode()) return false;
        return true;
    }

    private static JsonNode node(Object value) {
        return Json.tree(CONVERTER.fromConnectData(NO_TOPIC, null, value));
    }

    private static JsonNode unstorable(String reason, Object value) {
        return JsonNodeFactory.instance.objectNode().put("unstorable", reason).put("text", Misfit.text(value));
    }

    /** Why Java's worker would not store a partition or offset; null if it would. */
    private static String reason(Map<String, ?> map) {
        try {
            OffsetUtils.validateFormat(map);
            return null;
        } catch (DataException e) {
            return e.getMessage();
        }
    }

    @SuppressWarnings("unchecked")
    Map<String, Object> map(JsonNode json) {
        if (json == null || json.isNull()) return null;
        return (Map<String, Object>) CONVERTER.toConnectData(NO_TOPIC, Json.bytes(json)).value();
    }
}
