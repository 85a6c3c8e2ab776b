package kconnect.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.header.internals.RecordHeaders;

/** Kafka's headers of some records in the head of a block, [row, key, bytes, key, bytes ..], which converters may change. */
final class RowHeaders {
    private static final RecordHeaders NONE = new RecordHeaders();
    private final Map<Integer, RecordHeaders> given = new HashMap<>();
    private final Map<Integer, RecordHeaders> left = new TreeMap<>();

    RowHeaders(JsonNode head) {
        for (JsonNode row : head.path("headers")) given.put(row.get(0).asInt(), read(row));
    }

    /** Those of a row; what becomes of them is in nobody's `changed`. */
    RecordHeaders of(int row) {
        return given.isEmpty() ? new RecordHeaders() : new RecordHeaders(given.getOrDefault(row, NONE));
    }

    /** Those of a row, which a converter may change. */
    RecordHeaders toChange(int row) {
        RecordHeaders made = of(row);
        left.put(row, made);
        return made;
    }

    /** The rows whose headers are others now. */
    List<Object> changed() {
        List<Object> made = new ArrayList<>();
        left.forEach((row, headers) -> {
            if (!headers.equals(given.getOrDefault(row, NONE))) made.add(written(row, headers));
        });
        return made;
    }

    private static RecordHeaders read(JsonNode row) {
        RecordHeaders made = new RecordHeaders();
        for (int i = 1; i < row.size(); i += 2) {
            byte[] value = row.get(i + 1).isNull() ? null : Base64.getDecoder().decode(row.get(i + 1).asText());
            made.add(row.get(i).asText(), value);
        }
        return made;
    }

    static List<Object> written(int row, RecordHeaders headers) {
        List<Object> made = new ArrayList<>();
        made.add(row);
        for (var header : headers) {
            made.add(header.key());
            made.add(header.value() == null ? null : Base64.getEncoder().encodeToString(header.value()));
        }
        return made;
    }
}
