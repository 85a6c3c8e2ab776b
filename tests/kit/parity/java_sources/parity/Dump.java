package parity;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;

/** A sink that writes all that it was given, with schemas and classes, as a line for each record. */
public class Dump extends SinkConnector {
    private Map<String, String> props;

    @Override
    public String version() {
        return "1.0";
    }

    @Override
    public void start(Map<String, String> given) {
        props = given;
    }

    @Override
    public void stop() {
    }

    @Override
    public Class<? extends Task> taskClass() {
        return DumpTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int count) {
        return List.of(props);
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef().define("out", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "File.");
    }

    public static class DumpTask extends SinkTask {
        private PrintWriter out;

        @Override
        public String version() {
            return "1.0";
        }

        @Override
        public void start(Map<String, String> props) {
            try {
                FileOutputStream file = new FileOutputStream(props.get("out"), true);
                out = new PrintWriter(new OutputStreamWriter(file, StandardCharsets.UTF_8), false);
            } catch (IOException err) {
                throw new ConnectException(err);
            }
        }

        @Override
        public void put(Collection<SinkRecord> records) {
            for (SinkRecord record : records) {
                StringBuilder headers = new StringBuilder();
                for (Header header : record.headers()) {
                    headers.append(header.key()).append('=').append(schema(header.schema())).append(' ');
                    headers.append(value(header.value())).append(';');
                }
                String time = record.timestamp() == null ? "none" : record.timestampType() + " " + record.timestamp();
                String place = record.topic() + "|" + record.kafkaPartition() + "|" + record.kafkaOffset() + "|"
                        + record.originalTopic() + "|" + time;
                String key = schema(record.keySchema()) + " " + value(record.key());
                String line = place + "|K " + key + "|V " + schema(record.valueSchema()) + " " + value(record.value())
                        + "|H " + headers;
                out.println(line.replace("\n", "\\n"));
            }
            out.flush();
        }

        @Override
        public void stop() {
            if (out != null) {
                out.close();
            }
        }
    }

    static String value(Object given) {
        if (given == null) {
            return "null";
        }
        if (given instanceof byte[]) {
            return "bytes" + Arrays.toString((byte[]) given);
        }
        if (given instanceof ByteBuffer) {
            ByteBuffer buffer = ((ByteBuffer) given).duplicate();
            byte[] data = new byte[buffer.remaining()];
            buffer.get(data);
            return "buffer" + Arrays.toString(data);
        }
        List<String> parts = new ArrayList<>();
        if (given instanceof Struct) {
            for (Field field : ((Struct) given).schema().fields()) {
                parts.add(field.name() + "=" + value(((Struct) given).get(field)));
            }
            return "Struct" + parts;
        }
        if (given instanceof Map) {
            Map<String, String> sorted = new TreeMap<>();
            ((Map<?, ?>) given).forEach((key, it) -> sorted.put(value(key), value(it)));
            return "Map" + sorted;
        }
        if (given instanceof List) {
            ((List<?>) given).forEach(it -> parts.add(value(it)));
            return "List" + parts;
        }
        Object shown = given instanceof java.util.Date ? ((java.util.Date) given).getTime() : given;
        return given.getClass().getSimpleName() + ":" + shown;
    }

    static String schema(Schema given) {
        if (given == null) {
            return "-";
        }
        StringBuilder text = new StringBuilder(given.type().toString());
        text.append(given.name() == null ? "" : "/" + given.name());
        text.append(given.version() == null ? "" : "#" + given.version());
        text.append(given.isOptional() ? "?" : "");
        text.append(given.defaultValue() == null ? "" : "=" + value(given.defaultValue()));
        boolean hasParameters = given.parameters() != null && !given.parameters().isEmpty();
        text.append(hasParameters ? new TreeMap<>(given.parameters()).toString() : "");
        text.append(given.doc() == null ? "" : "\"" + given.doc() + "\"");
        if (given.type() == Schema.Type.STRUCT) {
            List<String> parts = new ArrayList<>();
            given.fields().forEach(field -> parts.add(field.name() + ":" + schema(field.schema())));
            text.append(parts);
        } else if (given.type() == Schema.Type.ARRAY) {
            text.append("<").append(schema(given.valueSchema())).append(">");
        } else if (given.type() == Schema.Type.MAP) {
            text.append("<").append(schema(given.keySchema())).append(",").append(schema(given.valueSchema()));
            text.append(">");
        }
        return text.toString();
    }
}
