package kit;

import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.storage.StringConverter;

/** A converter that adds a header to each record and takes it again, as those that write the number of a schema there. */
public class Heading extends StringConverter {
    @Override
    public byte[] fromConnectData(String topic, Headers headers, Schema schema, Object value) {
        Header before = headers.lastHeader("before"); // as header.converter made it
        headers.remove("number");
        headers.add("number", new byte[] {(byte) (before == null ? 1 : before.value()[0])});
        return fromConnectData(topic, schema, value);
    }

    @Override
    public SchemaAndValue toConnectData(String topic, Headers headers, byte[] value) {
        Header number = headers.lastHeader("number");
        headers.remove("number");
        SchemaAndValue read = toConnectData(topic, value);
        return new SchemaAndValue(read.schema(), read.value() + "@" + (number == null ? "?" : number.value()[0]));
    }
}
