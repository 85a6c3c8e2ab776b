package kit;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.config.Config;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectorContext;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.source.ConnectorTransactionBoundaries;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** A source that writes down what the runtime calls, and does what a file tells it. */
public class RecordedSource extends SourceConnector {
    private Map<String, String> config;
    private Journal journal;
    private Thread watcher;

    @Override
    public String version() {
        return "1";
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef()
                .define(Journal.SETTING, ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Where it writes.")
                .define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Where records go.")
                .define("round", ConfigDef.Type.INT, 1, ConfigDef.Importance.LOW, "What a change of it changes.");
    }

    @Override
    public Config validate(Map<String, String> given) {
        Journal.of(given, "questions").add("validate", given);
        return super.validate(given);
    }

    @Override
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> given) {
        Journal.of(given, "questions").add("exactlyOnceSupport", given);
        return ExactlyOnceSupport.SUPPORTED;
    }

    @Override
    public ConnectorTransactionBoundaries canDefineTransactionBoundaries(Map<String, String> given) {
        Journal.of(given, "questions").add("canDefineTransactionBoundaries", given);
        return ConnectorTransactionBoundaries.UNSUPPORTED;
    }

    @Override
    public boolean alterOffsets(Map<String, String> given, Map<Map<String, ?>, Map<String, ?>> offsets) {
        Journal.of(given, "questions").add("alterOffsets", given, types(offsets));
        return true;
    }

    @Override
    public void initialize(ConnectorContext context) {
        super.initialize(context);
        early.add("initialize");
    }

    @Override
    public void initialize(ConnectorContext context, List<Map<String, String>> configs) {
        super.initialize(context, configs);
        early.add("initialize with task configs " + configs);
    }

    private final List<String> early = new ArrayList<>(); // before a configuration tells where the journal is

    @Override
    public void start(Map<String, String> given) {
        config = given;
        journal = Journal.of(given, "connector");
        early.forEach(call -> journal.add(call));
        early.clear();
        journal.add("start", given);
        watcher = new Thread(this::watch, "recorded-source");
        watcher.setDaemon(true);
        watcher.start();
    }

    private void watch() {
        String done = "";
        while (watcher == Thread.currentThread()) {
            String wanted = journal.wanted()[0];
            if (!wanted.equals(done)) {
                done = wanted;
                if (wanted.equals("reconfigure")) context().requestTaskReconfiguration();
                if (wanted.equals("raise")) context().raiseError(new ConnectException("As it was reported"));
            }
            try {
                Thread.sleep(20);
            } catch (InterruptedException e) {
                return;
            }
        }
    }

    @Override
    public Class<? extends Task> taskClass() {
        journal.add("taskClass");
        return RecordedTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        journal.add("taskConfigs", most);
        Map<String, String> made = new TreeMap<>(config);
        made.put("id", "0");
        made.put("asked", journal.wanted()[0].equals("reconfigure") ? "again" : "first");
        return List.of(made);
    }

    @Override
    public void stop() {
        watcher = null;
        journal.add("stop");
    }

    /** Values with their classes: JSON has one kind of number, Java several. */
    static Object types(Object value) {
        if (value instanceof Map<?, ?> map) {
            Map<String, Object> made = new TreeMap<>();
            map.forEach((key, one) -> made.put(String.valueOf(types(key)), types(one)));
            return made;
        }
        return value == null ? "null" : value + ":" + value.getClass().getSimpleName();
    }

    /** Number n has every type of value that an offset may have. */
    public static class RecordedTask extends SourceTask {
        private Journal journal;
        private String topic;
        private long next;
        private boolean initialized;

        @Override
        public String version() {
            return "1";
        }

        @Override
        public void initialize(org.apache.kafka.connect.source.SourceTaskContext given) {
            super.initialize(given);
            initialized = true;
        }

        @Override
        public void start(Map<String, String> config) {
            journal = Journal.of(config, "task");
            topic = config.get("topic");
            Map<String, Object> offset = context.offsetStorageReader().offset(partition());
            next = offset == null ? 0 : (Long) offset.get("long");
            journal.add("start", initialized, config, types(offset), types(context.configs()).equals(types(config)));
        }

        /** Java's worker reads it back as a HashMap, and finds its offset only if that has the same order. */
        private static Map<String, Object> partition() {
            Map<String, Object> made = new HashMap<>();
            made.put("zone", "Zürich");
            made.put("number", 7);
            made.put("area", 5_000_000_000L);
            made.put("part", 0.5);
            return made;
        }

        private static Map<String, Object> offset(long n) {
            Map<String, Object> made = new LinkedHashMap<>();
            made.put("text", "line\n\"" + n + "\" ü \u2028");
            made.put("long", n);
            made.put("int", (int) n);
            made.put("short", (short) n);
            made.put("byte", (byte) n);
            made.put("large", Long.MAX_VALUE - n);
            made.put("double", n / 3.0);
            made.put("whole", (double) n);
            made.put("tenths", 1.0e10 * n);
            made.put("small", 1.0e-7 * n);
            made.put("float", 0.1f * n);
            made.put("is", n % 2 == 0);
            made.put("nothing", null);
            made.put("bytes", new byte[] {(byte) n, -1});
            return made;
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            String[] wanted = journal.wanted();
            if (wanted[0].equals("retry")) {
                journal.add("poll: retry");
                throw new RetriableException("Not yet");
            }
            if (wanted[0].equals("fail")) {
                journal.add("poll: fail");
                throw new ConnectException("As it was reported");
            }
            long most = wanted[0].equals("records") ? Long.parseLong(wanted[1]) : 0;
            if (next >= most) {
                Thread.sleep(20);
                return null;
            }
            List<SourceRecord> made = new ArrayList<>();
            long first = next;
            while (next < most) {
                next++;
                made.add(new SourceRecord(partition(), offset(next), topic, null, Schema.STRING_SCHEMA, "k" + next,
                        Schema.STRING_SCHEMA, "value " + next));
            }
            journal.add("poll:", first, next);
            return made;
        }

        @Override
        public void commitRecord(SourceRecord record, RecordMetadata metadata) {
            journal.add("commitRecord", record.key(), metadata == null ? null : metadata.offset());
        }

        @Override
        public void commit() {
            journal.add("commit");
        }

        @Override
        public void stop() {
            journal.add("stop");
        }
    }
}
