package kit;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.transforms.Transformation;

/** Plugins that behave, and plugins that do not. */
public class TestPlugins {
    /** Passes records on. */
    public static class Identity<R extends ConnectRecord<R>> implements Transformation<R> {
        @Override
        public R apply(R record) {
            return record.newRecord(record.topic(), record.kafkaPartition(), record.keySchema(), record.key(),
                    record.valueSchema(), record.value(), record.timestamp());
        }

        @Override
        public ConfigDef config() {
            return new ConfigDef();
        }

        @Override
        public void close() {}

        @Override
        public void configure(Map<String, ?> configs) {}
    }

    /** Does what its setting `does` says to every record whose value is the text `bad`, or to each one. */
    public static class Misbehaves<R extends ConnectRecord<R>> extends Identity<R> {
        private String does;
        private int left;

        @Override
        public void configure(Map<String, ?> configs) {
            does = String.valueOf(configs.get("does"));
            left = Integer.parseInt(String.valueOf(configs.get("times") == null ? "1000000" : configs.get("times")));
        }

        @Override
        public ConfigDef config() {
            return new ConfigDef()
                    .define("does", ConfigDef.Type.STRING, ConfigDef.NO_DEFAULT_VALUE,
                            ConfigDef.ValidString.in("throw", "retry", "exit", "crash", "memory", "sleep", "missing"),
                            ConfigDef.Importance.HIGH, "What it does.")
                    .define("times", ConfigDef.Type.INT, null, ConfigDef.Importance.LOW, "How often.");
        }

        @Override
        public R apply(R record) {
            if (!"bad".equals(record.value()) || left-- <= 0) return record;
            switch (does) {
                case "throw": throw new DataException("This is bad", new IllegalStateException("the reason"));
                case "retry": throw new RetriableException("Not yet");
                case "exit": System.exit(7);
                case "crash": crash();
                case "memory": fill();
                case "sleep": sleep();
                case "missing": return MissingUser.use(record);
                default: throw new ConnectException("Unknown: " + does);
            }
        }

        private static void crash() {
            try {
                Field field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
                field.setAccessible(true);
                ((sun.misc.Unsafe) field.get(null)).putAddress(0, 0);
            } catch (ReflectiveOperationException e) {
                throw new ConnectException(e);
            }
        }

        private static void fill() {
            List<long[]> kept = new ArrayList<>();
            while (true) kept.add(new long[10_000_000]);
        }

        private static void sleep() {
            try {
                Thread.sleep(Long.MAX_VALUE);
            } catch (InterruptedException e) {
                throw new ConnectException(e);
            }
        }
    }

    static class MissingUser {
        static <R extends ConnectRecord<R>> R use(R record) {
            return new Missing().pass(record);
        }
    }

    /** Numbers from 0 on, with what it was told of them: commitRecord and commit go to the log. */
    public static class Numbers extends SourceConnector {
        private Map<String, String> config;

        @Override
        public String version() {
            return "1.2.3";
        }

        @Override
        public void start(Map<String, String> given) {
            config = given;
        }

        @Override
        public Class<? extends Task> taskClass() {
            return NumbersTask.class;
        }

        @Override
        public List<Map<String, String>> taskConfigs(int most) {
            return List.of(config);
        }

        @Override
        public void stop() {}

        @Override
        public ConfigDef config() {
            return new ConfigDef()
                    .define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Where they go.")
                    .define("count", ConfigDef.Type.LONG, 1000L, ConfigDef.Range.atLeast(1), ConfigDef.Importance.LOW, "How many.")
                    .define("bad", ConfigDef.Type.LONG, -1L, ConfigDef.Importance.LOW, "The one whose value is bad.");
        }
    }

    public static class NumbersTask extends SourceTask {
        private String topic;
        private long next;
        private long count;
        private long bad;

        @Override
        public String version() {
            return "1.2.3";
        }

        @Override
        public void start(Map<String, String> config) {
            topic = config.get("topic");
            count = Long.parseLong(config.getOrDefault("count", "1000"));
            bad = Long.parseLong(config.getOrDefault("bad", "-1"));
            Map<String, Object> offset = context.offsetStorageReader().offset(Map.of("source", "numbers"));
            next = offset == null ? 0 : (Long) offset.get("next");
            // a second run of the task adds it again
            var metrics = context.pluginMetrics();
            metrics.addMetric(metrics.metricName("next", "The next number.", new LinkedHashMap<>()),
                    (Gauge<Long>) (given, now) -> next);
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            if (next >= count) {
                Thread.sleep(50);
                return null;
            }
            List<SourceRecord> made = new ArrayList<>();
            for (int i = 0; i < 100 && next < count; i++, next++) {
                String value = next == bad ? "bad" : "number " + next;
                made.add(new SourceRecord(Map.of("source", "numbers"), Map.of("next", next + 1), topic,
                        Schema.STRING_SCHEMA, "k" + next, Schema.STRING_SCHEMA, value));
            }
            return made;
        }

        @Override
        public void stop() {}
    }
}
