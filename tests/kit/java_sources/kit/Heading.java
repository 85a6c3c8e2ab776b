package kit;

import org.apache.kafka.common.header.Headers;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.storage.StringConverter;

/** A converter that adds a header to each record, as those that write the number of a schema there. */
public class Heading extends StringConverter {
    @Override
    public byte[] fromConnectData(String topic, Headers headers, Schema schema, Object value) {
        headers.add("number", new byte[] {1});
        return fromConnectData(topic, schema, value);
    }
}
