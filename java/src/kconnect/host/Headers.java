package kconnect.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.header.Header;

/** Connect headers in the head of a block: [row, key, schema, text of JSON]. They are few, so no columns. */
final class Headers {
    private Headers() {}

    static Object[] row(int row, Header header) {
        Object[] values = {header.value()};
        byte[] text = header.schema() == null ? PlainJson.texts(values)[0] : PlainJson.texts(header.schema(), values)[0];
        return new Object[] {
            row, header.key(), Schemas.text(header.schema()), text == null ? null : new String(text, StandardCharsets.UTF_8)
        };
    }

    /** A header for who reads of its record: as text where it does not fit. */
    static Object[] shown(int row, Header header) {
        try {
            return row(row, header);
        } catch (RuntimeException e) {
            return new Object[] {row, header.key(), null, new String(Json.bytes(Misfit.text(header.value())), StandardCharsets.UTF_8)};
        }
    }

    static void read(JsonNode given, org.apache.kafka.connect.header.Headers target) {
        Schema schema = Schemas.read(Json.text(given.get(2)));
        byte[][] texts = {given.get(3).isNull() ? null : given.get(3).asText().getBytes(StandardCharsets.UTF_8)};
        Object value = schema == null ? PlainJson.read(texts)[0] : PlainJson.read(schema, texts)[0];
        target.add(given.get(1).asText(), value, schema);
    }
}
