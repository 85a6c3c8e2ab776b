package kconnect.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.storage.OffsetStorageReader;

/** Committed source offsets, which Python has; converted by the class that Java's worker converts them with. */
final class Offsets implements OffsetStorageReader {
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
        List<Object> asked = new ArrayList<>();
        wanted.forEach(partition -> asked.add(json(partition)));
        JsonNode found = upcall.ask("offsets", asked);
        Map<Map<String, T>, Map<String, Object>> made = new HashMap<>();
        for (int i = 0; i < wanted.size(); i++) {
            Map<String, Object> offset = map(found.get(i));
            if (offset != null) made.put(wanted.get(i), offset);
        }
        return made;
    }

    /** A partition or offset as JSON, with the numbers and the order in which Java's worker writes it. */
    JsonNode json(Map<String, ?> map) {
        return map == null ? null : Json.tree(CONVERTER.fromConnectData(NO_TOPIC, null, map));
    }

    @SuppressWarnings("unchecked")
    Map<String, Object> map(JsonNode json) {
        if (json == null || json.isNull()) return null;
        return (Map<String, Object>) CONVERTER.toConnectData(NO_TOPIC, Json.bytes(json)).value();
    }
}
