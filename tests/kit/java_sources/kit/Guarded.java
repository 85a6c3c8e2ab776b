package kit;

import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** A transformation that has its predicate within it, and gives what that finds another schema than the value is of. */
public class Guarded<R extends ConnectRecord<R>> implements Transformation<R> {
    @Override
    public R apply(R r) {
        return r.newRecord(r.topic(), r.kafkaPartition(), r.keySchema(), r.key(), Schema.INT32_SCHEMA, r.value(), r.timestamp());
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public void configure(Map<String, ?> config) {}

    @Override
    public void close() {}

    /** Finds the value `bad`. */
    public static class Guard<R extends ConnectRecord<R>> implements Predicate<R> {
        @Override
        public boolean test(R record) {
            return "bad".equals(record.value());
        }

        @Override
        public ConfigDef config() {
            return new ConfigDef();
        }

        @Override
        public void configure(Map<String, ?> config) {}

        @Override
        public void close() {}
    }
}
